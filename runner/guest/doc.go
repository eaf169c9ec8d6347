// Package guest speaks with the agents inside a virtual machine: with QEMU's guest
// agent (Agent), which says what runs there and shuts it down from within, and
// with the one that logs a user in (LoginAgent).
//
// # Beginning
//
// The agent is reached through a virtio port whose host side is a Unix socket of
// QEMU. Nothing tells on the socket whether an agent listens at the other end:
// QEMU's event VSERPORT_CHANGE does. Then
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
// The channel is a wire, not a connection: it may hold the answer to a question
// that somebody gave up waiting for, or half a question. So a byte 0xFF and
// guest-sync-delimited are sent first, and everything up to the 0xFF before that
// command's answer is skipped. That is done when dialling and again after each
// call that ended early, so that no call gets another one's answer.
//
// # The guest is not trusted
//
// Its owner may answer what he likes. A reply is bounded in size (MaxReply) and
// nesting (MaxDepth), must have the id of its command, and the texts of Info and
// OSInfo are made printable and short, what cannot be an address is left out.
//
// # The log-in agent
//
// Its protocol is a dialogue of lines, which Login conducts without reading or
// writing any, and docs/guest-agents.md describes. LoginAgent gives it the port's
// socket, reads no more than a few pieces a second, and says what has come of it
// when that has changed.
//
// The reference of QEMU's agent:
// https://www.qemu.org/docs/master/interop/qemu-ga-ref.html.
package guest
