package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/manager/web/fleet"
)

// Every page renders in every state and language, for administrators and for viewers. Its ids are unique, its controls
// have names, and text from guests and users is escaped.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	vms := oneOfEach()
	hostile := sample("hostile", fleet.Running)
	evil := `<script>alert("1")</script>`
	hostile.Message, hostile.OS, hostile.User, hostile.SSH = evil, evil, evil, evil
	hostile.Addresses = []fleet.Address{{Address: evil, From: evil}}
	hostile.Viewers[0].Who, hostile.Problems[0].Message, hostile.Conditions[0].Message = evil, evil, evil
	hostile.RestartAwaitingChanges[0].DesiredValue = evil
	hostile.Drives[0].Medium, hostile.Conditions[0].Type = evil, evil
	p := newPlay(t, append(vms, hostile, sample("odd name&?#/..", fleet.Running))...)
	p.allow("guest", "start", "accessConsole", "edit")
	addresses := []string{
		"/", "/portal", "/?q=sales", "/?q=nothing&sort=-ram", "/about", "/nopage", "/vms/novm",
		"/help/index.html", "/help/search?q=" + url.QueryEscape(evil), "/help/search?q=reset",
		"/new", "/new?name=web&user=joe",
		"/new?type=novel&name=" + url.QueryEscape(evil) + "&disk=x&key=y&network=z&class=c&option.tags=" +
			url.QueryEscape(evil),
	}
	for _, vm := range p.List() {
		for _, page := range []string{
			"", "/screen", "/console", "/screen/page", "/console/page", "/disks", "/network", "/history", "/plan",
			"/definition", "/edit", "/delete", "/source?module=my.star&line=2",
		} {
			addresses = append(addresses, "/vms/"+url.PathEscape(vm.Name)+page)
		}
	}
	for _, lang := range []string{"en", "de"} {
		for _, user := range []string{"admin", "guest"} {
			for _, address := range addresses {
				answer, text := p.call("GET", address, "", "Accept-Language", lang, "Test-User", user,
					"Sec-Fetch-Mode", "navigate")
				require.Less(t, answer.StatusCode, 500, "%s: %s", address, text)
				checkPage(t, lang+" "+user+" "+address, lang, text)
			}
		}
	}
}

func checkPage(t *testing.T, what, lang, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	ids, labels := map[string]bool{}, map[string]bool{}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "label" {
			labels[attribute(n, "for")] = true
		}
	}
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			require.NotContains(t, n.Data, "no value", what)
			continue
		}
		if n.Type != html.ElementNode {
			continue
		}
		if id := attribute(n, "id"); id != "" {
			require.False(t, ids[id], "%s has two elements %s", what, id)
			ids[id] = true
		}
		require.Empty(t, attribute(n, "style"), what)
		switch n.Data {
		case "html":
			require.Equal(t, lang, attribute(n, "lang"), what)
		case "script":
			require.True(t, strings.HasPrefix(attribute(n, "src"), "/static/") && n.FirstChild == nil, what)
		case "a":
			require.NotContains(t, attribute(n, "href"), " ", what)
			fallthrough
		case "button", "summary":
			require.NotEmpty(t, strings.TrimSpace(content(n)), "%s: a %s without a name", what, n.Data)
		case "input", "select", "textarea":
			named := attribute(n, "type") == "hidden" || attribute(n, "aria-label") != "" ||
				labels[attribute(n, "id")] && attribute(n, "id") != "" || within(n, "label")
			require.True(t, named, "%s: %s %s has no label", what, n.Data, attribute(n, "name"))
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func content(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
		b.WriteString(attribute(c, "alt"))
	}
	return b.String()
}

func within(n *html.Node, element string) bool {
	for above := range n.Ancestors() {
		if above.Data == element {
			return true
		}
	}
	return false
}

// All answers have the security headers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, path := range []string{"/", "/vms/web/console", "/nopage", p.server.static.assetPath("app.js")} {
		answer, _ := p.call("GET", path, "")
		h := answer.Header
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"), path)
	}
	answer, _ := p.call("GET", p.server.static.assetPath("app.js"), "")
	require.Contains(t, answer.Header.Get("Cache-Control"), "immutable")
	answer, _ = p.call("GET", "/", "")
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
}

// A file is also served at an outdated address, but without caching. Unknown files are not found.
func TestStaticFiles(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	for path, code := range map[string]int{
		"/static/0000/app.css": 200, "/static/app.css": 404, "/static/0000/": 404, "/static/0000/%2e%2e/server.go": 404,
		"/static/0000/licences/xterm-xterm.txt": 200, "/favicon.ico": 302,
	} {
		answer, _ := p.call("GET", path, "")
		require.Equal(t, code, answer.StatusCode, path)
		require.NotContains(t, answer.Header.Get("Cache-Control"), "immutable", path)
	}
}

// The language is the visitor's choice. Without a choice it is the browser's language, with English as the fallback.
func TestLanguage(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	for _, c := range []struct{ accept, cookie, want string }{
		{"", "", "en"},
		{"de-AT,de;q=0.9,en;q=0.5", "", "de"},
		{"fr,de;q=0.3", "", "de"},
		{"fr", "", "en"},
		{"de", "en", "en"},
		{"en", "de", "de"},
		{"de", `"><script>`, "de"},
	} {
		_, text := p.call("GET", "/", "", "Accept-Language", c.accept, "Cookie", "language="+c.cookie)
		require.Contains(t, text, `<html lang="`+c.want+`"`, "%+v", c)
	}
	answer, _ := p.call("POST", "/language", "language=de", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Set-Cookie"), "language=de")
	answer, _ = p.call("POST", "/language", "language=xx")
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}

// A visitor sees only VMs with a permission, and doesn't learn that others exist.
func TestVisibility(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, path := range []string{"/vms/web", "/vms/web/screen", "/vms/web/screenshot", "/vms/web/plan"} {
		answer, text := p.call("GET", path, "", "Test-User", "stranger")
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
		require.Contains(t, text, "This virtual machine does not exist", path)
	}
	_, text := p.call("GET", "/", "", "Test-User", "stranger")
	require.NotContains(t, text, "vms/web")
	require.Contains(t, text, "No virtual machines yet")
	p.allow("stranger", "start")
	answer, text := p.call("GET", "/vms/web/plan", "", "Test-User", "stranger")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, text, "you do not have the permission edit")
	_, text = p.call("GET", "/", "", "Test-User", "stranger")
	require.Contains(t, text, `href="/vms/web"`)
	require.NotContains(t, text, "/vms/web/screen", "it may not see the screen, so there is no picture of it")
}

// The list has 50 VMs per page.
func TestPages(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	for i := range 120 {
		p.Put(sample("vm"+string(rune('a'+i/26))+string(rune('a'+i%26)), fleet.Stopped))
	}
	_, text := p.call("GET", "/?page=2", "")
	require.Equal(t, 50, strings.Count(text, `<tr id="vm-`))
	require.Contains(t, text, "51 to 100 of 120")
	require.Contains(t, text, `href="/?page=3"`)
	_, text = p.call("GET", "/?page=99&sort=-name", "")
	require.Equal(t, 20, strings.Count(text, `<tr id="vm-`))
	require.Contains(t, text, `id="vm-vmaa"`)
}

// A failure is reported as a page to people, and as text to scripts.
func TestFailures(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{fleet.Refusal("line 3: <b>"), http.StatusConflict, "line 3: <b>"},
		{errors.New("connection reset"), http.StatusBadGateway, "connection reset"},
		{fleet.ErrNotFound, http.StatusNotFound, "This virtual machine does not exist."},
	} {
		p.fails = c.err
		answer, text := p.call("POST", "/vms/web/do", url.Values{"do": {"pause"}}.Encode())
		require.Equal(t, c.code, answer.StatusCode)
		require.Equal(t, c.text, strings.TrimSpace(text))
		answer, text = p.call("GET", "/vms/web/definition", "", "Sec-Fetch-Mode", "navigate")
		require.Equal(t, c.code, answer.StatusCode)
		require.Contains(t, text, html.EscapeString(c.text))
		require.Contains(t, text, "<h1>")
	}
}
