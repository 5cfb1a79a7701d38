// Package link moves bytes between the agent and one Go1. Its UDP is called from the 500 Hz control thread, so it makes
// raw, non-blocking system calls and nothing else: no allocation, no lock, no goroutine, no network poller, and a bounded
// number of calls each time.
//
//	agent/control ── Send ────► sendto ──► Go1 192.168.123.10:8007 (or sim/virtual, or linktest)
//	500 Hz thread ◄─ Receive ── recvmsg ◄─┘   kernel receive stamp, sender's address, true length
//	                    │
//	                    ├── ICMP errors from the socket's error queue: nothing listens there, nobody answers ARP
//	                    └── Counters, atomics ──► agent/httpapi, clawagent doctor (Hints)
//
// The socket is not connected. A connected one would let the kernel throw foreign datagrams away unseen, and who sends to
// the wrong port is what a person in front of a silent robot wants to know. They are counted and ignored; only the robot's
// own address and port are read. IP_RECVERR makes up for the other thing a connected socket gives, the ICMP errors.
//
// What the maker's receiver (shared/wire/README.md) loses or lets through comes out better here: each waiting datagram is
// judged alone, oldest first, in its true length, so a corrupt one never eats a good one, nothing of an earlier datagram
// completes a short one, a longer one is refused, and every one of several waiting is taken.
//
// A duplicate of the socket in the guard's process (AdoptUDP) damps from the same address when the agent no longer does.
//
// One goroutine owns a UDP: Receive, Send, Wait and Close are not to run at the same time. Counters may be read
// from anywhere.
//
// ProbeSport asks the robot's other computer whether sport mode runs. It is for the doctor and for arming, not for
// the control thread, and uses package net.
package link
