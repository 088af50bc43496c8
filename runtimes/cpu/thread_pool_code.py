"""The thread pool's code as LLVM IR: see thread_pool.py, which fills it in and starts it."""
from __future__ import annotations

from string import Template

ONE_BY_ONE = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; Runs all chunks on the calling thread, in their order.
define internal void @one_by_one(ptr %chunk, ptr %args, i64 %count, i64 %grain) nounwind {
entry:
  br label %run
run:
  %begin = phi i64 [ 0, %entry ], [ %stop, %run ]
  %far = add i64 %begin, %grain
  %stop = call i64 @llvm.umin.i64(i64 %far, i64 %count)
  call void %chunk(ptr %args, i64 %begin, i64 %stop)
  %rest = icmp ult i64 %stop, %count
  br i1 %rest, label %run, label %done
done:
  ret void
}
"""

ALONE = ONE_BY_ONE + """
define void @lazyten_run_chunks(ptr %chunk, ptr %args, i64 %count, i64 %grain) nounwind {
  call void @one_by_one(ptr %chunk, ptr %args, i64 %count, i64 %grain)
  ret void
}
define void @reset(ptr %setting) nounwind {
  ret void
}
"""
"""The pool of a system without POSIX threads."""

DECLARES = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
"""

POOL = Template(ONE_BY_ONE + """
%line = type { i64, [120 x i8] }            ; a word in cache lines of its own
%job = type { ptr, ptr, i64, i64, [96 x i8] }   ; chunk, args, iterations, grain

@gate = internal global %line zeroinitializer, align 128
@next = internal global %line zeroinitializer, align 128
@owner = internal global %line zeroinitializer, align 128
@sleeping = internal global %line zeroinitializer, align 128
@job = internal global %job zeroinitializer, align 128
@setting = internal global ptr null         ; where the number of threads to use is
@started = internal global i64 0            ; workers there are
@most = internal global i64 0               ; workers there may be
@spin = internal global i64 0               ; ns an idle worker watches the gate
@began = internal global i64 0              ; when launches began to follow each other,
@ended = internal global i64 0              ; and the last one ended
@lasted = internal global [1024 x i64] zeroinitializer  ; ns that kernels take
@mutex = internal global [256 x i8] zeroinitializer, align 128
@wake = internal global [256 x i8] zeroinitializer, align 128

$declares

define void @lazyten_run_chunks(ptr %chunk, ptr %args, i64 %count, i64 %grain) nounwind {
entry:
  %setting = load ptr, ptr @setting
  %threads = load atomic i64, ptr %setting monotonic, align 8
  %past = add i64 %grain, -1
  %full = add i64 %count, %past
  %chunks = udiv i64 %full, %grain
  %useful = call i64 @llvm.umin.i64(i64 %threads, i64 %chunks)
  %helpers = add i64 %useful, -1
  %several = icmp sgt i64 %helpers, 0
  br i1 %several, label %try, label %alone
try:
  %taken = cmpxchg ptr @owner, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %together, label %alone
alone:
  call void @one_by_one(ptr %chunk, ptr %args, i64 %count, i64 %grain)
  ret void
together:
  call void @start_workers(i64 %helpers)
  %crowded = icmp ugt i64 %threads, $cores
  %patience = select i1 %crowded, i64 0, i64 $spin_ns
  store atomic i64 %patience, ptr @spin monotonic, align 8
  store ptr %chunk, ptr @job
  store ptr %args, ptr getelementptr (%job, ptr @job, i64 0, i32 1)
  store i64 %count, ptr getelementptr (%job, ptr @job, i64 0, i32 2)
  store i64 %grain, ptr getelementptr (%job, ptr @job, i64 0, i32 3)
  store atomic i64 0, ptr @next monotonic, align 8
  %last = load atomic i64, ptr @gate monotonic, align 8
  %last_number = lshr i64 %last, 33
  %number = add i64 %last_number, 1
  %numbered = shl i64 %number, 33
  %limit = shl i64 %helpers, 16
  %limited = or i64 %numbered, %limit
  %open = or i64 %limited, 4294967296
  %was = atomicrmw xchg ptr @gate, i64 %open seq_cst
  %asleep = load atomic i64, ptr @sleeping seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  %begin = call i64 @clock()
  %worth = call i1 @is_worth_waking(ptr %chunk, i64 %begin)
  %wakes = and i1 %any, %worth
  br i1 %wakes, label %wake_some, label %work
wake_some:
  %wanted = call i64 @llvm.umin.i64(i64 %asleep, i64 %helpers)
  call void @wake_workers(i64 %wanted)
  br label %work
work:
  call void @take_chunks()
  %before = atomicrmw and ptr @gate, i64 -4294967297 acq_rel
  br label %wait
wait:
  %turn = phi i64 [0, %work], [%turns, %patient], [0, %yield]
  %now = load atomic i64, ptr @gate acquire, align 8
  %inside = and i64 %now, 65535
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %done, label %later
later:
  %long = icmp ugt i64 %turn, 1000
  br i1 %long, label %yield, label %patient
patient:
  %turns = add i64 %turn, 1
  $pause
  br label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
done:
  call void @remember(ptr %chunk, i64 %begin)
  store atomic i64 0, ptr @owner release, align 8
  ret void
}

; Where it is written down how many ns a kernel takes: 0 for one that never ran.
define internal ptr @place_of(ptr %chunk) nounwind {
  %address = ptrtoint ptr %chunk to i64
  %row = lshr i64 %address, 4
  %kept = and i64 %row, 1023
  %place = getelementptr [1024 x i64], ptr @lasted, i64 0, i64 %kept
  ret ptr %place
}

; Whether workers that wake come in time for this launch or those that follow it: it took longer
; than that last time, or launches have followed each other for so long.
define internal i1 @is_worth_waking(ptr %chunk, i64 %now) nounwind {
  %place = call ptr @place_of(ptr %chunk)
  %ns = load i64, ptr %place
  %unknown = icmp eq i64 %ns, 0
  %long = icmp sgt i64 %ns, $wake_ns
  %alone = or i1 %unknown, %long
  %ended = load i64, ptr @ended
  %pause = sub i64 %now, %ended
  %apart = icmp sgt i64 %pause, $burst_ns
  %before = load i64, ptr @began
  %began = select i1 %apart, i64 %now, i64 %before
  store i64 %began, ptr @began
  %since = sub i64 %now, %began
  %many = icmp sgt i64 %since, $wake_ns
  %worth = or i1 %alone, %many
  ret i1 %worth
}

; Writes down how long a launch took; twice of what it was at most, as the thread may have been kept
; from running.
define internal void @remember(ptr %chunk, i64 %begin) nounwind {
  %now = call i64 @clock()
  store i64 %now, ptr @ended
  %spent = sub i64 %now, %begin
  %place = call ptr @place_of(ptr %chunk)
  %ns = load i64, ptr %place
  %unknown = icmp eq i64 %ns, 0
  %twice = shl i64 %ns, 1
  %most = select i1 %unknown, i64 %spent, i64 %twice
  %less = call i64 @llvm.umin.i64(i64 %spent, i64 %most)
  %kept = call i64 @llvm.umax.i64(i64 %less, i64 1)
  store i64 %kept, ptr %place
  ret void
}

; Runs chunks until none is left.
define internal void @take_chunks() nounwind {
entry:
  %chunk = load ptr, ptr @job
  %args = load ptr, ptr getelementptr (%job, ptr @job, i64 0, i32 1)
  %count = load i64, ptr getelementptr (%job, ptr @job, i64 0, i32 2)
  %grain = load i64, ptr getelementptr (%job, ptr @job, i64 0, i32 3)
  br label %take
take:
  %first = atomicrmw add ptr @next, i64 %grain monotonic
  %left = icmp ult i64 %first, %count
  br i1 %left, label %run, label %done
run:
  %end = add i64 %first, %grain
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %count)
  call void %chunk(ptr %args, i64 %first, i64 %last)
  br label %take
done:
  ret void
}

; Whether a worker that was last in launch %served may come in at a gate that reads %word.
define internal i1 @may_enter(i64 %word, i64 %served) nounwind {
  %open_bit = and i64 %word, 4294967296
  %open = icmp ne i64 %open_bit, 0
  %number = lshr i64 %word, 33
  %fresh = icmp ne i64 %number, %served
  %inside = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %limit = and i64 %shifted, 65535
  %room = icmp ult i64 %inside, %limit
  %both = and i1 %open, %fresh
  %all = and i1 %both, %room
  ret i1 %all
}

define internal ptr @worker(ptr %unused) nounwind {
entry:
  br label %idle
idle:
  %served = phi i64 [-1, %entry], [%number, %inside], [%served, %awake]
  %patience = load atomic i64, ptr @spin monotonic, align 8
  %start = call i64 @clock()
  br label %watch
watch:
  %turn = phi i64 [1, %idle], [%turn, %come_in], [%turns, %nothing], [%turns, %go_on]
  %word = load atomic i64, ptr @gate monotonic, align 8
  %may = call i1 @may_enter(i64 %word, i64 %served)
  br i1 %may, label %come_in, label %nothing
come_in:
  %one_more = add i64 %word, 1
  %swapped = cmpxchg ptr @gate, i64 %word, i64 %one_more acq_rel monotonic
  %entered = extractvalue { i64, i1 } %swapped, 1
  br i1 %entered, label %inside, label %watch
inside:
  call void @take_chunks()
  %left = atomicrmw sub ptr @gate, i64 1 acq_rel
  %number = lshr i64 %word, 33
  br label %idle
nothing:
  $pause
  %turns = add i64 %turn, 1
  %phase = and i64 %turn, 31
  %due = icmp eq i64 %phase, 0
  br i1 %due, label %look, label %watch
look:
  %owner = load atomic i64, ptr @owner monotonic, align 8
  %launching = icmp ne i64 %owner, 0
  br i1 %launching, label %give_way, label %go_on
give_way:                                   ; the launching thread may wait for this one's core
  %gave = call i32 @sched_yield()
  br label %go_on
go_on:
  %now = call i64 @clock()
  %spent = sub i64 %now, %start
  %tired = icmp sgt i64 %spent, %patience
  br i1 %tired, label %sleep, label %watch
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %counted = atomicrmw add ptr @sleeping, i64 1 seq_cst
  br label %check
check:
  %seen = load atomic i64, ptr @gate seq_cst, align 8
  %called = call i1 @may_enter(i64 %seen, i64 %served)
  br i1 %called, label %awake, label %doze
doze:
  %woken = call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %check
awake:
  %uncounted = atomicrmw sub ptr @sleeping, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %idle
}

define internal i64 @clock() nounwind {
  %time = alloca { i64, i64 }
  %got = call i32 @clock_gettime(i32 $clock_id, ptr %time)
  %seconds = load i64, ptr %time
  %rest_place = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest_place
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %rest
  ret i64 %ns
}

; The lock makes sure that a worker about to sleep either sees the open gate or hears the signal.
define internal void @wake_workers(i64 %count) nounwind {
entry:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %signal
signal:
  %i = phi i64 [0, %entry], [%following, %signal]
  %signalled = call i32 @pthread_cond_signal(ptr @wake)
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %count
  br i1 %more, label %signal, label %done
done:
  ret void
}

; Makes sure that there are %count workers, as far as the system gives them. Called by the owner.
define internal void @start_workers(i64 %count) nounwind {
entry:
  %most = load i64, ptr @most
  %wanted = call i64 @llvm.umin.i64(i64 %count, i64 %most)
  %there = load i64, ptr @started
  %missing = icmp ult i64 %there, %wanted
  br i1 %missing, label %block, label %done
block:
  %thread = alloca i64
  %blocked = alloca [256 x i8], align 16
  %old = alloca [256 x i8], align 16
  %filled = call i32 @sigfillset(ptr %blocked)
$unblock
  %masked = call i32 @pthread_sigmask(i32 $setmask, ptr %blocked, ptr %old)
  br label %create
create:
  %n = phi i64 [%there, %block], [%following, %created]
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %created, label %refused
created:
  %handle = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %handle)
  %following = add i64 %n, 1
  %enough = icmp uge i64 %following, %wanted
  br i1 %enough, label %unblock, label %create
refused:
  store i64 %n, ptr @most
  br label %unblock
unblock:
  %made = phi i64 [%following, %created], [%n, %refused]
  store i64 %made, ptr @started
  %unmasked = call i32 @pthread_sigmask(i32 $setmask, ptr %old, ptr null)
  br label %done
done:
  ret void
}

; The pool as it is before its first launch: for the start, and for a child of fork().
define void @reset(ptr %setting) nounwind {
  store ptr %setting, ptr @setting
  store i64 0, ptr @gate
  store i64 0, ptr @next
  store i64 0, ptr @owner
  store i64 0, ptr @sleeping
  store i64 0, ptr @started
  store i64 $most_workers, ptr @most
  %mutex = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %wake = call i32 @pthread_cond_init(ptr @wake, ptr null)
  ret void
}
""")
"""thread_pool.py fills in the names after dollar signs. Words that several threads write are
atomic, and each has cache lines of its own."""
