//! How the ranks of a communicator reach each other, and the thread that speaks for this process.
