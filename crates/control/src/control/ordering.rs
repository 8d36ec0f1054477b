//! Takes orders of an operator on this process's Unix socket, and passes them to every seat.

use super::connection::{Connection, Role, Stream};
use super::{Control, Work};
use crate::descriptors::Ours;
use crate::orders::{self, Answer, Request};
use crate::timers::Alarm;
use crate::wire;
use airamp_agreement::MemberEvent;
use mio::{Interest, Token};
use std::io;
use std::time::Duration;

const MOST_OPERATORS: usize = 16;
const SILENCE: Duration = Duration::from_secs(5);

impl Control {
    /// At the first seat: a process that only makes ids has nothing to be ordered.
    pub(super) fn await_orders(&mut self) {
        let Some(folder) = self.options.orders.clone().filter(|_| !self.asked_for_orders) else { return };
        self.asked_for_orders = true;
        let token = self.token();
        let listener = orders::listen(&folder).and_then(|listener| {
            let mut listener = Ours::new(listener)?;
            self.poll.registry().register(&mut *listener, token, Interest::READABLE)?;
            Ok(listener)
        });
        match listener {
            Ok(listener) => self.order_socket = Some((token, listener)),
            Err(error) => {
                (self.options.log.debug)(&format!("no orders can be given to this process: {error}"))
            }
        }
    }

    pub(super) fn accept_orders(&mut self) {
        loop {
            let Some((token, listener)) = self.order_socket.as_ref().filter(|(_, own)| own.is_there()) else {
                return;
            };
            let token = *token;
            match listener.accept() {
                Ok((stream, _)) => {
                    let roles = self.connections.values().map(|connection| connection.role);
                    let Ok(stream) = Ours::new(stream) else { continue };
                    if roles.filter(|role| *role == Role::Operator).count() >= MOST_OPERATORS {
                        continue;
                    }
                    let Some(token) = self.adopt(Connection::new(Stream::Unix(stream), Role::Operator))
                    else {
                        continue;
                    };
                    self.timers.start(Alarm::Silence(token), SILENCE);
                    self.read(token);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.timers.start(Alarm::Accept(token), Duration::from_secs(1)),
            }
        }
    }

    pub(super) fn take_order(&mut self, token: Token, body: &[u8]) {
        let Ok(Request { order, job }) = wire::decode(body) else {
            return self.lose(token, "an order that makes no sense");
        };
        let is_meant = job.as_ref().is_none_or(|job| *job == self.options.job);
        let mut communicators = 0;
        if is_meant {
            let on = self.chairs.iter().filter(|(_, chair)| !chair.is_over);
            for (id, _) in on {
                communicators += 1;
                self.work.push_back(Work::Member(*id, MemberEvent::Order(order)));
            }
        }
        let text = match (is_meant, communicators) {
            (false, _) => "belongs to another job",
            (true, 0) => "has no communicator that could be compressed",
            (true, _) => "was told; the switch is agreed with all ranks",
        };
        let answer = Answer {
            pid: std::process::id(),
            job: self.options.job.clone(),
            communicators,
            text: text.into(),
        };
        match wire::encode(&answer) {
            Ok(body) => self.send(token, &body),
            Err(error) => self.lose(token, &error.to_string()),
        }
        self.finish(token);
    }
}
