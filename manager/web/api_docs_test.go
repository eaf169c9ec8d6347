package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

const apiPage = "../../docs/reference/api.md"

// The page lists every request, and its examples match the real answers. -update writes them.
func TestTheAPIIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(apiPage)
	require.NoError(t, err)
	for pattern := range new(Server).apiRoutes() {
		require.Contains(t, string(text), "\n| `"+pattern+"` |")
	}
	desk := sample("desk", fleet.Stopped)
	desk.Since = then
	p := newPlay(t, sample("web", fleet.Running), desk)
	p.store(fleet.Volume{
		Kind: fleet.VirtualDisk, Name: "web-system", Size: 20 << 30, State: "Ready", Source: "VirtualImage/debian-12",
		UsedBy: []string{"web"},
	})
	p.check.Warnings, p.check.Now[0].DesiredValue = nil, "2 GiB"
	p.faulty["maximumCpus: none"] = fleet.Faults{
		{Path: "vm.maximumCpus", Line: 1, Message: "none is not a number; use 1 to 4096"},
	}
	example := regexp.MustCompile("(?ms)^```http\n(.*?)^HTTP/1.1 .*?^```\n")
	done := 0
	now := example.ReplaceAllStringFunc(string(text), func(block string) string {
		done++
		request := example.FindStringSubmatch(block)[1]
		return "```http\n" + request + p.answerOf(request) + "```\n"
	})
	require.Equal(t, 19, done, "examples")
	if *update {
		require.NoError(t, os.WriteFile(apiPage, []byte(now), 0o600))
	}
	require.Equal(t, string(text), now)
}

// answerOf sends a request from the page, and returns the answer in the page's format.
func (p *play) answerOf(request string) string {
	p.t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		strings.Replace(head, "\n", " HTTP/1.1\nHost: x\n", 1) + "\n\n")))
	if !strings.Contains(head, "\n") {
		r, err = http.ReadRequest(bufio.NewReader(strings.NewReader(head + " HTTP/1.1\nHost: x\n\n")))
	}
	require.NoError(p.t, err, request)
	out, err := http.NewRequestWithContext(p.t.Context(), r.Method, p.http.URL+r.RequestURI, strings.NewReader(body))
	require.NoError(p.t, err)
	out.Header = r.Header
	answer, err := http.DefaultClient.Do(out)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text := fmt.Sprintf("HTTP/1.1 %d\n", answer.StatusCode)
	if tag := answer.Header.Get("ETag"); tag != "" {
		text += "ETag: " + tag + "\n"
	}
	switch kind := answer.Header.Get("Content-Type"); {
	case kind == "text/event-stream":
		in, said := bufio.NewReader(answer.Body), ""
		for !strings.Contains(said, "data: {}\n") { // of the event "current"
			line, err := in.ReadString('\n')
			require.NoError(p.t, err)
			said += line
		}
		return text + "\n" + said
	case strings.HasSuffix(kind, "json"):
		var indented bytes.Buffer
		all, err := io.ReadAll(answer.Body)
		require.NoError(p.t, err)
		require.NoError(p.t, json.Indent(&indented, all, "", "  "))
		return text + "\n" + strings.TrimSpace(indented.String()) + "\n"
	}
	all, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	if len(all) > 0 {
		text += "\n" + strings.ReplaceAll(strings.TrimSpace(string(all)), "<b>", "web") + "\n"
	}
	return text
}
