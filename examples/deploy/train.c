/* Trains for an epoch: batches from a file, the loss of each on a line. No Python, no lazyten.

   train batches.bin    where a batch is step.h's images, then its labels, as they are in memory */
#include <stdio.h>

#include "step.h"

static struct step_state state;
static float images[STEP_IMAGES_SIZE];
static int64_t labels[STEP_LABELS_SIZE];

int main(int count, char **arguments) {
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: train batches.bin\n");
    return 2;
  }
  step_initialize(&state);
  while (fread(images, sizeof images, 1, file) && fread(labels, sizeof labels, 1, file)) {
    float loss;
    int status = step(images, labels, &loss, &state);
    if (status) {
      fprintf(stderr, "train: step() gives %d: see step.h\n", status);
      return 1;
    }
    printf("%.9g\n", loss);
  }
  fclose(file);
  return 0;
}
