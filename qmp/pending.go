package qmp

import (
	"context"
	"encoding/json"
	"fmt"
)

// Pending is a command with a reply that can be waited for.
type Pending struct {
	session *Session
	command string
	id      uint64
	line    []byte // until it is sent; guarded by the session's mutex
	rights  []byte // a descriptor to send with it (SCM_RIGHTS of unix(7)); may be nil

	done  chan struct{} // closed when reply and err are set
	reply json.RawMessage
	err   error
	then  func(json.RawMessage, error) // called when done is closed; may be nil
}

// finishWith must be called exactly once: by the goroutine that removed the command from the session's books.
func (p *Pending) finishWith(reply json.RawMessage, err error) {
	p.session.log.Debug("QMP reply", "command", p.command, "bytes", len(reply), "err", err)
	p.reply, p.err = reply, err
	close(p.done)
	if p.then != nil {
		p.then(p.resultOf())
	}
}

// resultOf returns the result of Wait after done is closed.
func (p *Pending) resultOf() (json.RawMessage, error) {
	if p.err != nil {
		return nil, fmt.Errorf("QMP %s: %w", p.command, p.err)
	}
	return p.reply, nil
}

// Withdraw removes the command from the queue if it has not been sent. It reports whether it has: in that case no
// reply arrives, and the function passed to Call is not called.
func (p *Pending) Withdraw() bool { return p.session.withdrawCommand(p) }

func (p *Pending) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the reply has arrived or can no longer arrive. After that, Wait returns immediately.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the reply, with the errors of Session.Run. You can call it again, even after the context of an
// earlier call has ended.
func (p *Pending) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("QMP %s: no reply: %w", p.command, context.Cause(ctx))
		}
	}
	return p.resultOf()
}
