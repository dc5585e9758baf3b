//! The write gate under a scheduler that tries the orders in which threads may run.

mod primitives {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use shuttle::thread::ThreadId;
    pub(super) use std::sync::PoisonError;

    pub(super) fn current_thread() -> ThreadId {
        shuttle::thread::current().id()
    }
}

#[path = "../src/session/gate.rs"]
mod gate;

use gate::Gate;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

/// Orders tried by each test; each failure prints the schedule that leads to it.
const SCHEDULES: usize = 3000;

fn try_orders(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, SCHEDULES);
}

#[test]
fn two_threads_are_never_inside_at_once_and_all_come_in() {
    try_orders(|| {
        let (gate, inside, visits) =
            (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (gate, inside, visits) = (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&visits));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let outer = gate.enter();
                        let inner = gate.enter();
                        assert!(outer.is_outermost() && !inner.is_outermost());
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        visits.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(visits.load(Ordering::SeqCst), 6);
    });
}

#[test]
fn a_thread_that_comes_in_again_keeps_others_out_until_it_has_left_as_often() {
    try_orders(|| {
        let (gate, inside) = (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)));
        let other = {
            let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
            thread::spawn(move || {
                let _entered = gate.enter();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
            })
        };
        let outer = gate.enter();
        inside.store(1, Ordering::SeqCst);
        drop(gate.enter());
        thread::yield_now();
        inside.store(0, Ordering::SeqCst);
        drop(outer);
        other.join().unwrap();
    });
}
