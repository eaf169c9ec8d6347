package sandbox

import "encoding/json"

// A message is one line between the two processes. The parent sends the request
// and the answers to questions, the child questions and the result.
type message struct {
	Question json.RawMessage `json:"question,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	// Error ends the work without a result, in words.
	Error string `json:"error,omitempty"`
}

// mark is the variable of the environment by which a child knows what it is.
const mark = "VMOP_SANDBOX"
