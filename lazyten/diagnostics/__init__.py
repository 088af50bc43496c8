"""Why a schedule is what it is, and a launch that is run again and made smaller.

In: what execution knows of its plans, and files of launches. Out: text, and smaller files.
docs/debug.md shows both.

Files, in reading order:

- explanation.py: `explain`: why each value of a computation is stored, and what the alternative
  would cost.
- kernel_replay.py: Runs a kept launch again, compares devices element by element, and makes it
  smaller:.
- kernel_shrink.py: Makes a launch smaller as long as it still fails: fewer ops, smaller extents,
  simpler inputs.

launch_dump.py says whether launches are kept, launch_file.py writes the files, kernel_text.py
reads a kernel's text back, kernel_replay.py runs a file and compares devices, and
kernel_shrink.py makes it smaller.
"""
