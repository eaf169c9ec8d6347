// Package guest communicates with the agents inside a virtual machine: with QEMU's guest agent (Agent), which
// reports what is running there and shuts the guest down, and with the agent that logs a user in (LoginAgent).
//
// # Getting started
//
// The agent is reached through a virtio port. Its host side is a Unix socket of QEMU. The socket does not show
// whether an agent listens at the other end; QEMU's event VSERPORT_CHANGE does. After it
//
//	agent, err := guest.Dial(ctx, path)
//	info, err := agent.OSInfo(ctx)
//	interfaces, err := agent.Interfaces(ctx)
//	err = agent.Shutdown(ctx, guest.PowerDown)
//
// Every call is bounded by its context; calls of several goroutines take turns.
//
// # Synchronization
//
// The channel is a wire, not a connection: it may still contain the reply to a command after its caller has given
// up, or half a command. To synchronize, a byte 0xFF and guest-sync-delimited are sent first, and everything up
// to the 0xFF before the reply to that command is skipped. This happens when dialing and again after each call
// that ended early, so a call never gets the reply to another call.
//
// # The guest is not trusted
//
// An agent can reply anything. A reply is bounded in size (maxReply) and nesting (maxDepth) and must have the id
// of its command. The texts of Info and OSInfo are made printable and short, and invalid addresses are left out.
//
// # The log-in agent
//
// Its protocol is a dialogue of lines, described in docs/reference/guest-agents.md. Login is the state of that
// dialogue, without input or output. LoginAgent connects it to the socket of the port, limits how much it reads
// per second, and publishes each change of the state.
//
// The reference of QEMU's agent: https://www.qemu.org/docs/master/interop/qemu-ga-ref.html.
package guest
