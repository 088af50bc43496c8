"""Many launches by one call: a list of them as data, and the code that goes through it.

The code is compiled once (own_code.py); a list is packed in no time, whatever it launches.

    void sequence(i64* list, ptr* buffers)

A list is: how many launches, the most arguments of one, and for each launch the kernel's address,
the number of its arguments, and for each argument which buffer it is and from which byte on.
"""
from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from lazyten.device import Argument

SEQUENCE = """
define void @sequence(ptr %list, ptr %buffers) nounwind {
entry:
  %count = load i64, ptr %list
  %second = getelementptr i64, ptr %list, i64 1
  %most = load i64, ptr %second
  %arguments = alloca ptr, i64 %most
  %start = getelementptr i64, ptr %list, i64 2
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %end, label %launch
launch:
  %at = phi ptr [%start, %entry], [%next, %call]
  %left = phi i64 [%count, %entry], [%fewer, %call]
  %kernel = load ptr, ptr %at
  %length = getelementptr i64, ptr %at, i64 1
  %given = load i64, ptr %length
  %first = getelementptr i64, ptr %at, i64 2
  br label %argument
argument:
  %i = phi i64 [0, %launch], [%following, %argument]
  %from = phi ptr [%first, %launch], [%next, %argument]
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
  br i1 %more, label %argument, label %call
call:
  call void %kernel(ptr %arguments)
  %fewer = sub i64 %left, 1
  %done = icmp eq i64 %fewer, 0
  br i1 %done, label %end, label %launch
end:
  ret void
}
"""


def packed(launches: Sequence[tuple[int, Sequence[Argument]]]) -> bytes:
    """The list for these addresses of kernels, each of which has an argument at least."""
    most = max((len(arguments) for _, arguments in launches), default=0)
    numbers = [len(launches), most]
    for address, arguments in launches:
        numbers += [address, len(arguments), *(n for argument in arguments for n in argument)]
    return pack(f"{len(numbers)}q", *numbers)
