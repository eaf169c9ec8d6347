package sandbox

import (
	"encoding/json"
	"os"
)

// A message is one line between the two processes. The parent sends the request and the answers to questions. The
// child sends questions and the result.
type message struct {
	Question json.RawMessage `json:"question,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	// Error ends the work without a result. It is a text.
	Error string `json:"error,omitempty"`
}

// A child recognizes its role by an environment variable and its only argument. Both are necessary: the program must
// work normally for a user who has exported the variable.
const (
	mark     = "VMOP_SANDBOX"
	argument = "sandbox"
)

func isChild() bool {
	return os.Getenv(mark) != "" && len(os.Args) == 2 && os.Args[1] == argument
}
