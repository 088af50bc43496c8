"""What a jitted function depends on of Python's state, and whether that means the same again.

In: a function, and its arguments. Out: the names that it can reach, with what they meant when it
was traced, and errors for what no comparison can tell.

Files, in reading order:

- places.py: Where Python keeps what a name means: an object's dict, a module's globals, a cell; and
  when that means the same again.
- contents.py: What containers hold, compared by identity.
- opaque.py: What cannot be compared between calls: objects whose state Python does not show.
- surroundings.py: What a function can reach by name: its variables, those of the user's functions
  that it calls, and attributes of what it gets.
- environment.py: The Python state that a function depends on: what its names meant when it was
  traced.
- purity.py: Refusing what a replay cannot repeat: printing, input, clocks and Python's random
  numbers.
"""
