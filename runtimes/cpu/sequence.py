"""Many launches by one call: a list of them as data, and the code that goes through it.

The code is compiled once (own_code.py); a list is packed in no time, whatever it launches.

    i64 sequence(i64* list, ptr* buffers)

A list is: how many steps, the most arguments of one, and then the steps. A launch is the kernel's
address, the number of its arguments, and for each argument which buffer it is and from which byte
on. A limit has 0 for the kernel, one argument, and then a number: if the int64 in memory is not
from 0 to below that, no further step is taken. The result is how many steps were not taken.
"""
from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import NamedTuple

from lazyten.devices.program import Argument, Limit

SEQUENCE = """
define i64 @sequence(ptr %list, ptr %buffers) nounwind {
entry:
  %count = load i64, ptr %list
  %second = getelementptr i64, ptr %list, i64 1
  %most = load i64, ptr %second
  %arguments = alloca ptr, i64 %most
  %start = getelementptr i64, ptr %list, i64 2
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %end, label %step
step:
  %at = phi ptr [%start, %entry], [%further, %taken]
  %left = phi i64 [%count, %entry], [%fewer, %taken]
  %kernel = load ptr, ptr %at
  %length = getelementptr i64, ptr %at, i64 1
  %given = load i64, ptr %length
  %first = getelementptr i64, ptr %at, i64 2
  br label %argument
argument:
  %i = phi i64 [0, %step], [%following, %argument]
  %from = phi ptr [%first, %step], [%next, %argument]
  %number = load i64, ptr %from
  %behind = getelementptr i64, ptr %from, i64 1
  %offset = load i64, ptr %behind
  %buffer = getelementptr ptr, ptr %buffers, i64 %number
  %memory = load ptr, ptr %buffer
  %pointer = getelementptr i8, ptr %memory, i64 %offset
  %to = getelementptr ptr, ptr %arguments, i64 %i
  store ptr %pointer, ptr %to
  %next = getelementptr i64, ptr %from, i64 2
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %given
  br i1 %more, label %argument, label %ready
ready:
  %is_limit = icmp eq ptr %kernel, null
  br i1 %is_limit, label %look, label %launch
launch:
  call void %kernel(ptr %arguments)
  br label %taken
look:
  %value = load i64, ptr %pointer
  %limit = load i64, ptr %next
  %behind_limit = getelementptr i64, ptr %next, i64 1
  %inside = icmp ult i64 %value, %limit
  br i1 %inside, label %taken, label %end
taken:
  %further = phi ptr [%next, %launch], [%behind_limit, %look]
  %fewer = sub i64 %left, 1
  %done = icmp eq i64 %fewer, 0
  br i1 %done, label %end, label %step
end:
  %rest = phi i64 [0, %entry], [%left, %look], [0, %taken]
  ret i64 %rest
}
"""


class Call(NamedTuple):
    """A step that calls the kernel at an address."""

    address: int
    arguments: Sequence[Argument]


def packed(steps: Sequence[Call | Limit]) -> bytes:
    """The list of these steps; each call has an argument at least."""
    most = max((len(s.arguments) for s in steps if isinstance(s, Call)), default=1)
    numbers = [len(steps), most]
    for step in steps:
        if isinstance(step, Call):
            numbers += [step.address, len(step.arguments), *(n for a in step.arguments for n in a)]
        else:
            numbers += [0, 1, *step.memory, step.below]
    return pack(f"{len(numbers)}q", *numbers)
