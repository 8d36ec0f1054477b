//! Who is connected. There are so many seats; when all are taken, the connection that has been silent longest
//! leaves, those that never asked anything first. So ten thousand idle connections cost ten thousand accepts and
//! no more memory, and whoever comes with a question gets a seat. One thread, hence cells.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use crate::board::Board;

/// A connection has so long to ask its first whole question, handshake and all.
const FIRST_QUESTION: Duration = Duration::from_secs(10);

/// And so long from one question to have taken the answer and asked the next. Prometheus asks every minute or
/// more often, and opens a new connection otherwise.
const NEXT_QUESTION: Duration = Duration::from_secs(75);

pub(crate) struct Room {
    most: usize,
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    next: Cell<u64>,
    emptied: Notify,
    board: Arc<Board>,
}

/// A connection's place; freed when this is dropped.
pub(crate) struct Seated {
    room: Rc<Room>,
    number: u64,
    pub(crate) seat: Rc<Seat>,
}

pub(crate) struct Seat {
    has_asked: Cell<bool>,
    last_sign: Cell<Instant>,
    deadline: Cell<Instant>,
    leave: Notify,
}

impl Room {
    pub(crate) fn new(most: usize, board: Arc<Board>) -> Rc<Self> {
        Rc::new(Self { most, seats: RefCell::default(), next: Cell::new(0), emptied: Notify::new(), board })
    }

    pub(crate) fn enter(self: &Rc<Self>) -> Seated {
        if self.seats.borrow().len() >= self.most {
            self.send_one_away();
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let seat = Rc::new(Seat::new());
        self.seats.borrow_mut().insert(number, Rc::clone(&seat));
        self.board.counts.connections_open.store(self.seats.borrow().len() as u64, Relaxed);
        Seated { room: Rc::clone(self), number, seat }
    }

    /// Takes the seat at once; the connection's task ends when it next runs.
    pub(crate) fn send_one_away(&self) {
        let mut seats = self.seats.borrow_mut();
        let silent = seats.iter().min_by_key(|(_, seat)| (seat.has_asked.get(), seat.last_sign.get()));
        let Some(number) = silent.map(|(number, _)| *number) else { return };
        if let Some(seat) = seats.remove(&number) {
            seat.leave.notify_one();
            self.board.counts.connections_closed_for_room.fetch_add(1, Relaxed);
        }
    }

    /// Comes back when nobody is left.
    pub(crate) async fn until_empty(&self) {
        while !self.seats.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut seats = self.room.seats.borrow_mut();
        seats.remove(&self.number);
        self.room.board.counts.connections_open.store(seats.len() as u64, Relaxed);
        if seats.is_empty() {
            self.room.emptied.notify_one();
        }
    }
}

impl Seat {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            has_asked: Cell::new(false),
            last_sign: Cell::new(now),
            deadline: Cell::new(now + FIRST_QUESTION),
            leave: Notify::new(),
        }
    }

    /// A whole question has come.
    pub(crate) fn asked(&self) {
        let now = Instant::now();
        self.has_asked.set(true);
        self.last_sign.set(now);
        self.deadline.set(now + NEXT_QUESTION);
    }

    /// Comes back when the connection has to end: it was sent away, or let its time pass.
    pub(crate) async fn until_over(&self) {
        loop {
            tokio::select! {
                () = self.leave.notified() => return,
                () = tokio::time::sleep_until(self.deadline.get()) => {
                    if Instant::now() >= self.deadline.get() {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(most: usize) -> Rc<Room> {
        Room::new(most, Arc::new(Board::new(0)))
    }

    fn is_seated(room: &Room, seated: &Seated) -> bool {
        room.seats.borrow().contains_key(&seated.number)
    }

    #[test]
    fn a_full_room_sends_away_who_never_asked_before_who_did() {
        let room = room(2);
        let (scraper, idle) = (room.enter(), room.enter());
        scraper.seat.asked();
        let newcomer = room.enter();
        assert!(is_seated(&room, &scraper) && is_seated(&room, &newcomer) && !is_seated(&room, &idle));
        assert_eq!(room.board.counts.connections_closed_for_room.load(Relaxed), 1);
    }

    #[test]
    fn ten_thousand_who_come_and_stay_take_no_more_than_the_seats() {
        let room = room(256);
        let everybody: Vec<_> = (0..10_000).map(|_| room.enter()).collect();
        assert_eq!(room.seats.borrow().len(), 256);
        assert!(everybody.last().is_some_and(|last| is_seated(&room, last)));
        drop(everybody);
        assert_eq!(room.board.counts.connections_open.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_goes_after_ten_seconds_and_a_question_gives_more_time() {
        let room = room(2);
        let seated = room.enter();
        let began = Instant::now();
        seated.seat.until_over().await;
        assert_eq!(began.elapsed().as_secs(), FIRST_QUESTION.as_secs());
        seated.seat.asked();
        seated.seat.until_over().await;
        assert_eq!(began.elapsed().as_secs(), (FIRST_QUESTION + NEXT_QUESTION).as_secs());
    }
}
