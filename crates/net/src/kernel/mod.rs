//! `Net` on the kernel's sockets, by epoll.
