package qmp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode/utf8"
)

// Command is a QMP command. It is a plain value that can be compared and stored.
//
// Printing a Command in any way (fmt, slog, encoding/json) shows the names of its arguments, but only the values
// that are known to contain no secret (openMembers). Only the session writes a command in full.
type Command struct {
	Execute   string
	Arguments any // encoded as JSON; may be nil
	// File is sent with the command (getfd, add-fd); it may be nil. It must stay open until the reply, and the
	// caller closes it.
	File *os.File
}

// hidden replaces a value that is not printed.
const hidden = `"***"`

// String returns the command's name and its arguments as JSON, redacted.
func (c Command) String() string {
	if c.Arguments == nil {
		return c.Execute
	}
	return c.Execute + " " + string(c.redactArguments())
}

// Format prints String for every verb.
func (c Command) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue returns String.
func (c Command) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON returns the command in the syntax of QMP, but redacted, for reports. The session uses encode instead.
func (c Command) MarshalJSON() ([]byte, error) {
	var arguments json.RawMessage
	if c.Arguments != nil {
		arguments = c.redactArguments()
	}
	return json.Marshal(wireCommand{Execute: c.Execute, Arguments: arguments})
}

// wireCommand is a command in the syntax of QMP.
type wireCommand struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	ID        uint64          `json:"id,omitempty"`
}

// encodeLine returns the line to send for the command.
func (c Command) encodeLine(id uint64) ([]byte, error) {
	wire := wireCommand{Execute: c.Execute, ID: id}
	if c.Arguments != nil {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			return nil, fmt.Errorf("encode the arguments: %w", err)
		}
		if !utf8.Valid(arguments) { // QEMU's answer would lack the id
			return nil, errors.New("encode the arguments: json: not UTF-8")
		}
		wire.Arguments = arguments
	}
	line, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	return append(line, '\n'), nil
}

func (c Command) redactArguments() json.RawMessage {
	text, err := json.Marshal(c.Arguments)
	if err != nil {
		return json.RawMessage(hidden)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return json.RawMessage(hidden)
	}
	if text, err = json.Marshal(redactValue("", value)); err != nil {
		return json.RawMessage(hidden)
	}
	return text
}

// redactValue returns value, the member called key, without possible secrets. It shows texts and numbers only for
// members that are known to contain no secrets, so that a misspelled "password" can't reveal one.
func redactValue(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = redactValue(k, member)
		}
	case []any:
		for i, element := range v {
			v[i] = redactValue(key, element)
		}
	case string:
		if key == "value" || !isOpenMember(key) {
			return json.RawMessage(hidden)
		}
		return openPart(v)
	case json.Number:
		if !isOpenMember(key) {
			return json.RawMessage(hidden)
		}
	}
	return value
}

// openMembers lists the members of commands' arguments that contain no secrets, apart from addresses with a
// password. A member called "value" may contain a secret, so its texts are hidden.
const openMembers = " action addr bus chardev cluster-id core-id cpu-index device die-id drive driver event fdname " +
	"fdset-id file filename format id image iothread mode name netdev node-id node-name on-error opaque panic path " +
	"property protocol qom-type read-only-mode reboot requested-size shutdown size socket-id speed state target " +
	"thread-id time type uri url value watchdog "

// isOpenMember reports whether a member is in openMembers.
func isOpenMember(key string) bool { return key != "" && strings.Contains(openMembers, " "+key+" ") }

// openPart returns a text without the parts of addresses and options that may be secret: users, passwords, and
// signatures after a question mark.
func openPart(text string) any {
	if strings.HasPrefix(text, "json:") {
		return json.RawMessage(hidden)
	}
	scheme, rest, is := strings.Cut(text, "://")
	if !is {
		return text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	if bare, _, asks := strings.Cut(rest, "?"); asks {
		rest = bare + "?***"
	}
	return scheme + "://" + rest
}
