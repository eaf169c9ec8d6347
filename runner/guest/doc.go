// Package guest communicates with the agents inside a virtual machine: with QEMU's guest
// agent (Agent), which reports what is running there and shuts the guest down, and with the
// one that logs a user in (LoginAgent).
//
// # Getting started
//
// The agent is reached through a virtio port whose host side is a Unix socket of
// QEMU. The socket does not show whether an agent listens at the other end; QEMU's event
// VSERPORT_CHANGE does. After it
//
//	agent, err := guest.Dial(ctx, path)
//	info, err := agent.OSInfo(ctx)
//	interfaces, err := agent.Interfaces(ctx)
//	err = agent.Shutdown(ctx, guest.PowerDown)
//
// Every call is bounded by its context; calls of several goroutines take turns.
//
// # Synchronisation
//
// The channel is a wire, not a connection: it may still hold the reply to a command whose
// caller has given up, or half a command. So a byte 0xFF and guest-sync-delimited are sent
// first, and everything up to the 0xFF before the reply to that command is skipped. This is
// done when dialling and again after each call that ended early, so that no call gets the
// reply to another one.
//
// # The guest is not trusted
//
// An agent can reply anything. A reply is bounded in size (MaxReply) and nesting (MaxDepth)
// and must have the id of its command. The texts of Info and OSInfo are made printable and
// short, and what cannot be an address is left out.
//
// # The log-in agent
//
// Its protocol is a dialogue of lines, described in docs/guest-agents.md. Login is the
// state of that dialogue and does no input or output. LoginAgent connects it to the socket
// of the port, limits how much it reads per second, and publishes each change of the state.
//
// The reference of QEMU's agent:
// https://www.qemu.org/docs/master/interop/qemu-ga-ref.html.
package guest
