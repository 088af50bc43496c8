"""Seeing where time goes, and what a program becomes: profiles, and pages that show every stage.

In: what the compiler and the runtimes tell who looks on (support/observers.py). Out: tables, a
trace file, a page. docs/seeing.md shows them. Not here: what DEBUG prints (execution/debug.py), and
who is told (support/observers.py).

Files, in reading order:

- program.py: Which values of a graph each kernel of a schedule computes, and for which lines.
- limits.py: What a device can do at most, measured: operations a second, and bytes a second.
- record.py: What ran within a block, and how long that took, as data.
- tables.py: A profile as text: by kernel, by the user's line, and what is no kernel.
- trace.py: A profile as a file of trace events, for Perfetto and Chrome.
- profile.py: `lt.profile`: what runs within a block, and how long that takes, as tables and as a
  trace.
- collect.py: What a program is, from the user's lines to machine code, as data for a page.
- view.py: `lt.view`: a page that shows a program at each stage, from the user's lines to machine
  code.

page.html, page.css and page.js are that page, without its data.
"""
