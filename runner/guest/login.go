package guest

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// AnswerTime is what a log-in agent has for the answer to a command, and again
// for the next each time it says that it is busy (1xx). After it the agent is
// taken for one that has lost the command.
const AnswerTime = 5 * time.Minute

// A Login is the host's side of the dialogue with the log-in agent, the program
// in the guest that logs a user in at its screen. It is what is known and what
// to say next; it reads and writes nothing, and asks no clock.
//
// The host says "login USER" or "logout", and the agent answers with lines that
// begin with three digits and a space, as in SMTP:
//
//	220 the agent is there
//	201 the user is logged in
//	202 nobody is logged in any more
//	240 the agent goes
//	1xx it takes a while
//	4xx, 5xx it can't be done
//
// One command is under way at a time, so it is certain what an answer is to.
type Login struct {
	wanted string
	// asked is the last command said to this agent, "" if there was none.
	asked    string
	open     bool // asked has no answer yet
	deadline time.Time
	// known says that an agent listens, greeted or not: commands can be said.
	known bool
	state LoginState
}

// LoginState is what is known of the log-in agent.
type LoginState struct {
	// Connected tells whether the agent has announced itself.
	Connected bool
	// User is who is logged in because it was asked for; "" if nobody is.
	User string
	// Failure says, printable and short, why the last command was not obeyed.
	Failure string
}

// State returns what is known.
func (l *Login) State() LoginState { return l.state }

// Want tells who shall be logged in; "" means nobody. A name that is not
// printable, or longer than MaxText bytes, is never said.
func (l *Login) Want(user string) { l.wanted = user }

// Opened tells that somebody in the guest has opened the agent's port. Who was
// there before is gone. With greeted, it may be an agent that has announced
// itself already, to somebody else: it is asked without waiting for that.
func (l *Login) Opened(greeted bool) {
	l.Closed()
	l.known = greeted
}

// Closed tells that the port was closed.
func (l *Login) Closed() { *l = Login{wanted: l.wanted} }

// Hear takes a line of the agent, without its end. Lines that are not of the
// protocol, and answers to nothing, are passed over.
func (l *Login) Hear(line string, now time.Time) {
	code, ok := codeOf(line)
	if !ok {
		return
	}
	switch {
	case code == "220":
		l.Opened(true)
		l.state.Connected = true
		return
	case code == "240":
		l.Closed()
		return
	case code == "202":
		l.state.User = "" // also if he has left by himself
		if l.asked != logout {
			return
		}
	case !l.open:
		return
	case code[0] == '1':
		l.deadline = now.Add(AnswerTime)
		return
	}
	if l.open {
		l.answered(code, line)
	}
}

// answered takes the answer to the command that is under way.
func (l *Login) answered(code, line string) {
	l.open = false
	l.state.Connected = true
	l.state.Failure = ""
	user, isLogin := strings.CutPrefix(l.asked, login)
	switch {
	case isLogin && code == "201":
		l.state.User = user
	case !isLogin && code == "202":
	default:
		l.state.Failure = fit(line)
	}
}

// The commands of the host.
const (
	login  = "login "
	logout = "logout"
)

// Say returns the line to say now, without its end, or "".
func (l *Login) Say(now time.Time) string {
	if l.open && !now.Before(l.deadline) {
		l.state.Failure = "the agent does not answer " + fit(l.asked)
	}
	command := logout
	if l.wanted != "" {
		command = login + l.wanted
	}
	if !l.known || command == l.asked || l.open && now.Before(l.deadline) {
		return ""
	}
	l.asked = command
	if !canLogIn(l.wanted) {
		l.open = false
		l.state.Failure = "the name is too long or not printable"
		return ""
	}
	l.open, l.deadline, l.state.Failure = true, now.Add(AnswerTime), ""
	return command
}

// Wake returns when Say has to be called although nothing was heard; the zero
// time if never.
func (l *Login) Wake(now time.Time) time.Time {
	if !l.open || !now.Before(l.deadline) {
		return time.Time{}
	}
	return l.deadline
}

// canLogIn says that a name can be said on a line, where nothing of it is taken
// for a command. What is empty can be said, too: it is not.
func canLogIn(user string) bool {
	return utf8.ValidString(user) && len(user) <= MaxText &&
		strings.IndexFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// codeOf returns the three digits that a line begins with.
func codeOf(line string) (code string, ok bool) {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' {
		return "", false
	}
	for _, b := range []byte(line[:3]) {
		if b < '0' || b > '9' {
			return "", false
		}
	}
	return line[:3], true
}
