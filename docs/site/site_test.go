package site_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/deploy/crds"
	"vmop/docs"
	"vmop/docs/site"
)

// elements returns the values of an attribute of all elements.
func elements(t *testing.T, body, attribute string) (all []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == attribute {
				all = append(all, a.Val)
			}
		}
	}
	return all
}

// made returns the generated documents of the project's resources.
func made(t testing.TB) map[string][]byte {
	t.Helper()
	resources, err := site.Definitions(crds.Files())
	require.NoError(t, err)
	return resources
}

// Each link of each page leads to a page, to one of its headings, or to a picture.
func TestLinksArrive(t *testing.T) {
	t.Parallel()
	s, err := site.Read(docs.Files(), made(t), "")
	require.NoError(t, err)
	require.NotNil(t, s.Page(site.Index))
	count := 0
	for _, p := range s.Pages() {
		require.NotEqual(t, p.Name, p.Title, "it has a heading")
		for _, link := range append(elements(t, string(p.Body), "href"), elements(t, string(p.Body), "src")...) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			count++
			file, anchor, _ := strings.Cut(link, "#")
			target := path.Join(path.Dir(p.Href), file)
			if file == "" {
				target = p.Href
			}
			if path.Dir(target) == "pictures" {
				_, err := fs.Stat(docs.Files(), target)
				require.NoError(t, err)
				continue
			}
			to := s.Page(target)
			require.NotNil(t, to, "%s links to %s", p.Name, link)
			if anchor != "" {
				require.Contains(t, elements(t, string(to.Body), "id"), anchor, "%s links to %s", p.Name, link)
			}
		}
	}
	require.Greater(t, count, 500)
}

// A document becomes a page, and only its Markdown becomes markup.
func TestDocument(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"README.md": {Data: []byte("# All\n\n" +
			"[one](one.md#a-head) [code](../cmd/main.go) [type](types) <script>x</script>\n")},
		"one.md": {Data: []byte("# One\n\n## A *head*!\n\nText of `code`\nand more.\n\n    a block\n\n## A head\n\n" +
			"| a | b |\n|---|---|\n| Zürich | x |\n")},
		"types/README.md": {Data: []byte("# Types\n\n[back](../README.md), [one](../one.md#a-head-1)\n")},
	}
	for source, code := range map[string]string{
		"": "code", "https://example.org/v1": `<a href="https://example.org/v1/cmd/main.go">code</a>`,
	} {
		s, err := site.Read(files, nil, source)
		require.NoError(t, err)
		require.Equal(t, "<h1 id=\"all\">All</h1>\n"+
			`<p><a href="one.html#a-head">one</a> `+code+` <a href="types/index.html">type</a> `+
			"<!-- raw HTML omitted -->x<!-- raw HTML omitted --></p>\n", string(s.Page("index.html").Body))
		require.Contains(t, s.Page("types/index.html").Body,
			`<a href="../index.html">back</a>, <a href="../one.html#a-head-1">one</a>`)
		require.Equal(t, []site.Section{
			{Anchor: "one", Title: "One"},
			{Anchor: "a-head", Title: "A head!", Text: "Text of code and more. a block"},
			{Anchor: "a-head-1", Title: "A head", Text: "a b Zürich x"},
		}, s.Page("one.html").Sections)
		hits := s.Search(" ZÜRICH head")
		require.Len(t, hits, 1)
		require.Equal(t, "one.html#a-head-1", hits[0].Href)
		require.Equal(t, []string{"One", "A head", "a b ", "Zürich", " x"},
			[]string{hits[0].Page, hits[0].Section, hits[0].Before, hits[0].Match, hits[0].After})
		require.Empty(t, s.Search("head nowhere"))
		require.Empty(t, s.Search(" "))
	}
}

// The best result of a search is the expected page.
func TestSearch(t *testing.T) {
	t.Parallel()
	s, err := site.Read(docs.Files(), made(t), "")
	require.NoError(t, err)
	for query, want := range map[string]string{
		"helm install":      "tasks/kubernetes-images.html#helm",
		"kvmResource":       "reference/manager.html#configuration",
		"move another":      "tasks/migration",
		"vmrunner snapshot": "tasks/snapshots.html",
	} {
		hits := s.Search(query)
		require.NotEmpty(t, hits, query)
		found := false
		for _, h := range hits[:min(5, len(hits))] {
			found = found || strings.HasPrefix(h.Href, want)
		}
		require.True(t, found, "%s: %v", query, hits[:min(5, len(hits))])
	}
	require.LessOrEqual(t, len(s.Search("the")), 30)
}

func FuzzSearch(f *testing.F) {
	s, err := site.Read(fstest.MapFS{"a.md": {Data: []byte("# Ⱥ ß\n\nİstanbul ẞ ab\xff c\n")}}, nil, "")
	require.NoError(f, err)
	for _, query := range []string{"ab", "i̇", "ß c", "\xff"} {
		f.Add(query)
	}
	f.Fuzz(func(_ *testing.T, query string) { s.Search(query) })
}
