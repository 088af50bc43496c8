/* Tells which digits are in a file of images: one a line. No Python, no lazyten.

   classify images.bin    where an image is 32 * 32 floats, from 0, paper, to 1, ink */
#include <stdio.h>

#include "lenet.h"

int main(int count, char **arguments) {
  static float image[LENET_IMAGE_SIZE];
  float scores[LENET_SCORES_SIZE];
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: classify images.bin\n");
    return 2;
  }
  while (fread(image, sizeof image, 1, file)) {
    int best = 0;
    lenet(image, scores);
    for (int digit = 1; digit < LENET_SCORES_SIZE; ++digit)
      if (scores[digit] > scores[best]) best = digit;
    printf("%d\n", best);
  }
  fclose(file);
  return 0;
}
