package sandbox

import (
	"encoding/json"
	"os"
)

// A message is one line between the two processes. The parent sends the request
// and the answers to questions, the child questions and the result.
type message struct {
	Question json.RawMessage `json:"question,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	// Error ends the work without a result, in words.
	Error string `json:"error,omitempty"`
}

// A child knows what it is by a variable of the environment and its only
// argument: a variable that a user has exported must not keep a program from
// its own work.
const (
	mark     = "VMOP_SANDBOX"
	argument = "sandbox"
)

func isChild() bool {
	return os.Getenv(mark) != "" && len(os.Args) == 2 && os.Args[1] == argument
}
