package control_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// canary is a secret in a command. It must reach QEMU but not the log.
const canary = "canary-7c1f"

// FuzzRequests sends anything to the control socket and closes the connection. Each answer is HTTP with a code from
// docs/reference/control.md, and a refusal contains a reason. The log stays safe for a terminal, no resources leak, and
// the next client is served.
func FuzzRequests(f *testing.F) {
	for _, request := range []string{
		"GET /v1/status HTTP/1.1\r\nHost: vm\r\n\r\n", "GET /v1/plan?form=\x1b[31m HTTP/1.1\r\nHost: vm\r\n\r\n",
		"GET /v1/plan?form=%1b%5b31m%0a HTTP/1.1\r\nHost: vm\r\n\r\n", "GET /v1/events HTTP/1.1\r\nHost: vm\r\n\r\n",
		"GET /v1/console?mode=take HTTP/1.1\r\nHost: vm\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nls\n",
		"GET /v1/vnc HTTP/1.1\r\nHost: vm\r\nUpgrade: tcp\r\n\r\nRFB 003.008\n",
		"POST /v1/stop?force=maybe HTTP/1.1\r\nHost: vm\r\n\r\n",
		"POST /v1/reset HTTP/1.0\r\n\r\n", "GET /v1/../../../etc/passwd HTTP/1.1\r\nHost: vm\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST /v1/qmp HTTP/1.1\r\nHost: vm\r\nContent-Length: 200\r\n\r\n{\"execute\": ",
		"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "\r\n\r\n",
		"POST /v1/qmp?timeout=1s HTTP/1.1\r\nHost: vm\r\nContent-Length: " +
			"72\r\n\r\n{\"execute\":\"set_password\",\"arguments\":{\"password\":\"" + canary + "\"}}       ",
		"POST /v1/qmp?timeout=1s HTTP/1.1\r\nHost: vm\r\nContent-Length: " + // the misspelled argument
			"64\r\n\r\n{\"execute\":\"set_password\",\"arguments\":{\"pasword\":\"" + canary + "\"}}",
		"POST /v1/qmp HTTP/1.1\r\nHost: vm\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"execut\r\nffffffffffffffff\r\n",
		"GET /v1/metrics HTTP/1.1\r\nHost: " + strings.Repeat("a", 20<<10) + "\r\n\r\n",
		"POST /v1/qmp HTTP/1.1\r\nHost: vm\r\nContent-Length: 25\r\n\r\n{\"execute\": \"\\u001b\\u0000\"}",
		"OPTIONS * HTTP/1.1\r\nHost: vm\r\n\r\n",
	} {
		f.Add([]byte(request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		s := serve(t)
		s.guest(t)
		conn, err := net.Dial("unix", s.path())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(wait.Deadline()))
		_, _ = conn.Write(request) // a server may have answered already
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		requireHTTP(t, answer)

		st, err := s.client.Status(timeout(t))
		require.NoError(t, err)
		require.Equal(t, "web", st.Name)
		wait.Until(t, func() bool {
			return s.clients(t) == "1"
		}, "a connection is left")
		text := s.log.String()
		require.NotContains(t, text, canary)
		require.Negative(t, strings.IndexFunc(text, func(r rune) bool {
			return !unicode.IsPrint(r) && r != '\n' && r != unicode.ReplacementChar
		}), "%q", text)
		require.Less(t, len(text), 8<<10, "a request has a line or two in the log")
	})
}

// clients returns the number of clients, including the requesting client.
func (s *served) clients(t *testing.T) string {
	var text bytes.Buffer
	require.NoError(t, s.client.Metrics(timeout(t), &text))
	_, rest, _ := strings.Cut(text.String(), "vmop_control_clients{name=\"web\"} ")
	number, _, _ := strings.Cut(rest, "\n")
	return number
}

// requireHTTP reads the server's complete answer.
func requireHTTP(t *testing.T, answer []byte) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(answer))
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return
		}
		response, err := http.ReadResponse(in, nil)
		require.NoError(t, err, "%q", answer)
		switch response.StatusCode {
		case http.StatusContinue:
			continue
		case http.StatusSwitchingProtocols:
			return // the guest's data follows
		}
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err, "%q", answer)
		codes := []int{200, 204, 301, 307, 400, 404, 405, 408, 409, 413, 417, 422, 423, 431, 500, 501, 504, 505}
		require.Contains(t, codes, response.StatusCode, "%q", answer)
		if response.StatusCode >= 400 && response.Header.Get("Content-Type") == "application/json" {
			var refusal struct{ Error string }
			require.NoError(t, json.Unmarshal(body, &refusal), "%q", answer)
			require.NotEmpty(t, refusal.Error)
		}
		require.NotEqual(t, http.StatusInternalServerError, response.StatusCode, "%q", answer)
	}
}

// FuzzCommand sends anything as the body of a QMP command. QEMU receives exactly the intended command or no command.
func FuzzCommand(f *testing.F) {
	for _, body := range []string{
		`{"execute": "stop"}`, `{"execute": "qom-get", "arguments": {"path": "/", "property": "\u0000"}}`, `{}`, `[]`,
		`null`, `{"execute": 5}`,
		`{"execute": "a", "id": 7}`, `{"execute": "a"} {"execute": "b"}`, "{\"execute\": \"a\nb\"}",
		`{"execute": "a", "arguments": [1, 1e400]}`,
		`{"execute": "a", "execute": "b"}`, `{"EXECUTE": "a"}`, "{\"execute\": \"\xff\"}",
		`{"execute": "a", "arguments": ` + strings.Repeat("[", 20000), `{"` + strings.Repeat("a", 3000) + `": 1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := serve(t)
		code, text := s.http(t, http.MethodPost, "/v1/qmp", string(body))
		s.backend.mu.Lock()
		defer s.backend.mu.Unlock()
		if code != "200" {
			require.Equal(t, "400", code)
			require.Empty(t, s.backend.commands)
			var refusal struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(text), &refusal))
			require.NotEmpty(t, refusal.Error)
			return
		}
		var meant struct {
			Execute   string
			Arguments json.RawMessage
		}
		require.NoError(t, json.Unmarshal(body, &meant))
		require.Len(t, s.backend.commands, 1)
		name, arguments, _ := strings.Cut(s.backend.commands[0], " ")
		if !strings.Contains(meant.Execute, " ") {
			require.Equal(t, meant.Execute, name)
		}
		if meant.Arguments != nil && !strings.Contains(meant.Execute, " ") {
			require.Equal(t, exactly(t, string(meant.Arguments)), exactly(t, arguments))
		}
	})
}

// exactly decodes JSON without loss.
func exactly(t *testing.T, text string) (value any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&value))
	return value
}
