package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// catalogues contains the texts by key, in one file per language. A text has placeholders {0}, {1} … for values.
//
//go:embed texts/*.json
var catalogues embed.FS

// languages are the languages of the pages; the first is the default.
var languages = []language.Tag{language.English, language.German}

// A tongue contains the texts in one language.
type tongue struct {
	tag   language.Tag
	texts map[string]string
}

// readTongues returns the texts of all languages, in the order of languages.
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

// languageCookie is the name of the cookie with the language that the visitor chose.
const languageCookie = "language"

// tongueOf returns the language for a request: the visitor's choice, or the best match for the browser if the visitor
// has not chosen.
func (s *Server) tongueOf(r *http.Request) *tongue {
	var wanted []string
	if c, err := r.Cookie(languageCookie); err == nil {
		wanted = append(wanted, c.Value)
	}
	_, i := language.MatchStrings(s.matcher, append(wanted, r.Header.Get("Accept-Language"))...)
	return s.tongues[i]
}

// textOf returns a text with its placeholders filled in. For a key without a text it returns the last part of the key,
// such as a state or reason from a newer runner.
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
