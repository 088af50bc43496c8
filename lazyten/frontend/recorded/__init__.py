"""Operations that came before: what they give is looked up instead of worked out again.

In: methods and functions that give tensors, which are wrapped. Out: the same, which find what they
gave the last time. Not here: frames and templates (storage/frames.py), and the programs that
compute them (execution/frame_runs.py).

Files, in reading order:

- lookup.py: Looking up operations: what methods and functions that give tensors are wrapped in.
- families.py: Operations that differ from step to step in nothing but numbers of Python.
- courses.py: The numbers that operations are met with, turn by turn: which of them vary.
- cuts.py: Views that plain indices cut out of memory, such as a row of the data: not looked up.
- masks.py: Elements that a mask chooses of a tensor in memory: read and written by the host, not
  looked up.
- regions.py: Views that begin at another place each time, such as a batch's rows of the data; and
  what is written to them.
- joining.py: Lists of tensors that are others each time, such as the examples that a batch is
  joined of.
- keys.py: What an operation is looked up by: its arguments, tensors as the templates that they
  have.
- lifting.py: Values that came about outside of a frame are made known in it: their graphs over real
  memory are written again over its sources, as if they had been recorded there.
- mistakes.py: What is said of an operation that has failed: an option of a kind that it does not
  take.
- entries.py: What an operation did, in terms that hold whenever it comes again; and doing it again.
- recording.py: Recording an operation: it is run once, on stand-ins for its operands that are over
  templates.
- sayable.py: What a template can say: graphs over sources and constants alone, whose rules for
  gradients hold no value of one step.
- slots.py: Gradients that users write, in templates: a numbered slot, whose rule each step has of
  its own; and hooks of gradients.
- gradients.py: backward() that was done before: the gradients of a template are looked up.

A frame numbers the memory that a step reads, so a step that does what the step before did stands
over the same templates. The key of an operation is its function, its numbers, and its tensors as
templates, with what else it depends on: gradients on or off, autocast, the device. What it did is
an `Entry`: new templates, views of its operands, writes to them. An operation that is not known is
run once on stand-ins over templates. If it looks at a value there, or does anything that an entry
cannot say, it is run on the tensors themselves, now and always: they give their graphs over real
memory, as if there were no frames; what comes after lifts these graphs. So whatever is not known to
be repeatable is as it would be without this room, and a program that takes another course finds
other entries, or makes them.

A look ends a frame. What follows goes on in it where it begins with a value whose graph is there;
else it begins another, to which such values are copied with what they are computed by (lifting.py).
A frame of which all is computed rests: where its line is run again it begins again, with the same
storages as its sources, whatever values they have now (storage/deferred.py).
Users' rules for gradients cannot be copied: where a frame began that asked for values with such,
the one before goes on the next time (keys.py).

Of backward() the gradients are looked up by the loss's template, and by what users' rules give on
the way, which are run in each step as they were written, on tensors. An optimizer's step is one
operation (optim/recorded_step.py). What is remembered is bounded: operations that did not come
again go first. In a trace, and under a transform, nothing is looked up.
"""
