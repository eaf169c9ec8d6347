package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// catalogues has a text for each key, in one file for each language. A text has places
// {0}, {1} … for values.
//
//go:embed texts/*.json
var catalogues embed.FS

// languages that pages can be shown in; the first is the default.
var languages = []language.Tag{language.English, language.German}

// A tongue is one language's texts.
type tongue struct {
	tag   language.Tag
	texts map[string]string
}

// readTongues returns the languages' texts, in the order of languages.
func readTongues() ([]*tongue, error) {
	all := make([]*tongue, len(languages))
	for i, tag := range languages {
		file := "texts/" + tag.String() + ".json"
		data, err := catalogues.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all[i] = &tongue{tag: tag}
		if err := json.Unmarshal(data, &all[i].texts); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return all, nil
}

// languageCookie has the language that the visitor has chosen.
const languageCookie = "language"

// tongueOf returns the language of a request: the visitor's choice, else the browser's.
func (s *Server) tongueOf(r *http.Request) *tongue {
	var wanted []string
	if c, err := r.Cookie(languageCookie); err == nil {
		wanted = append(wanted, c.Value)
	}
	_, i := language.MatchStrings(s.matcher, append(wanted, r.Header.Get("Accept-Language"))...)
	return s.tongues[i]
}

// textOf returns a text with its places filled in. A key without a text is shown as it is:
// states and reasons that a newer runner reports have none.
func (t *tongue) textOf(key string, values ...any) string {
	text, known := t.texts[key]
	if !known {
		return key[strings.LastIndexByte(key, '.')+1:]
	}
	for i, v := range values {
		text = strings.ReplaceAll(text, fmt.Sprintf("{%d}", i), fmt.Sprint(v))
	}
	return text
}

// hasText reports whether a key has a text.
func (t *tongue) hasText(key string) bool { return t.texts[key] != "" }
