package lsp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// An envelope is a JSON-RPC message: a request, a notification (without an id), or an answer.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// wellFormed returns the message for jrpc2, or an answer that refuses a malformed message. jrpc2 must not receive
// malformed messages: it panics if such a message is waiting when the connection ends (v1.3.6, Server.deliver with no
// channel).
func wellFormed(message []byte) (good, answer []byte) {
	var e envelope
	const parseError, invalidRequest = -32700, -32600
	if !json.Valid(message) {
		return nil, refusalBody(parseError, "the message is no JSON")
	}
	if err := json.Unmarshal(message, &e); err != nil {
		return nil, refusalBody(invalidRequest, "the message is not a JSON-RPC object")
	}
	switch {
	case e.Version != "2.0":
		return nil, refusalBody(invalidRequest, "jsonrpc is not 2.0")
	case len(e.ID) > 0 && !isNumber(e.ID) && e.ID[0] != '"':
		return nil, refusalBody(invalidRequest, "the id is neither a number nor a string")
	case e.Method == "" && (len(e.ID) == 0 || len(e.Result) == 0 && len(e.Error) == 0):
		return nil, refusalBody(invalidRequest, "the message is neither a request nor an answer")
	case e.Method != "" && (len(e.Result) > 0 || len(e.Error) > 0):
		return nil, refusalBody(invalidRequest, "the message is both a request and an answer")
	case len(e.Error) > 0 && e.Error[0] != '{':
		return nil, refusalBody(invalidRequest, "the error is not an object")
	}
	if bytes.Equal(e.Params, []byte("null")) {
		e.Params = nil
	}
	if len(e.Params) > 0 && e.Params[0] != '{' && e.Params[0] != '[' {
		return nil, refusalBody(invalidRequest, "params is neither an object nor an array")
	}
	good, err := json.Marshal(e)
	if err != nil {
		return nil, refusalBody(invalidRequest, "the message can't be understood")
	}
	return good, nil
}

func isNumber(id json.RawMessage) bool { return id[0] == '-' || id[0] >= '0' && id[0] <= '9' }

func refusalBody(code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, code, message)
}
