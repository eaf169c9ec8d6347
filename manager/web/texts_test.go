package web

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

var places = regexp.MustCompile(`\{\w+\}`)

// Every language has every text, with the same placeholders.
func TestLanguagesAreComplete(t *testing.T) {
	t.Parallel()
	all, err := readTongues()
	require.NoError(t, err)
	english := all[0]
	for _, other := range all[1:] {
		for key, text := range english.texts {
			theirs := other.texts[key]
			require.NotEmpty(t, theirs, "%s: %s", other.tag, key)
			require.ElementsMatch(t, places.FindAllString(text, -1), places.FindAllString(theirs, -1), "%s: %s",
				other.tag, key)
		}
		require.Len(t, other.texts, len(english.texts), "%s has a text that there is not in English", other.tag)
	}
}

// usedKeys returns the complete keys in the sources, and the beginnings of composed keys.
func usedKeys(t *testing.T) (whole, beginnings []string) {
	t.Helper()
	literal := regexp.MustCompile(`"([a-z]+\.[A-Za-z.]*)"`)
	var files []string
	for _, pattern := range []string{"*.go", "templates/*.html"} {
		found, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			switch key := m[1]; {
			case strings.HasSuffix(key, "."):
				beginnings = append(beginnings, key)
			case !strings.HasSuffix(key, ".svg") && !strings.HasSuffix(key, ".css") && !strings.HasSuffix(key, ".js"):
				whole = append(whole, key)
			}
		}
	}
	return whole, beginnings
}

// Every used key has a text, and every text is used.
func TestTextsAreUsed(t *testing.T) {
	t.Parallel()
	all, err := readTongues()
	require.NoError(t, err)
	english := all[0]
	whole, beginnings := usedKeys(t)
	for _, key := range whole {
		require.True(t, english.hasText(key), "there is no text %s", key)
	}
	for key := range english.texts {
		made := slices.ContainsFunc(append(beginnings, "access."),
			func(b string) bool { return strings.HasPrefix(key, b) })
		require.True(t, made || slices.Contains(whole, key), "the text %s is not used", key)
	}
}

// Names from other packages have texts: states, actions, reasons, columns.
func TestNamesHaveTexts(t *testing.T) {
	t.Parallel()
	all, err := readTongues()
	require.NoError(t, err)
	for _, s := range fleet.States() {
		require.True(t, all[0].hasText("state."+string(s)), s)
	}
	for _, a := range fleet.Actions() {
		require.True(t, all[0].hasText("do."+string(a)), a)
		require.Contains(t, actions, a)
		require.Equal(t, actions[a].ask, all[0].hasText("ask."+string(a)), a)
	}
	for _, k := range fleet.VolumeKinds() {
		require.True(t, all[0].hasText("volume.kind."+string(k)), k)
	}
	for _, s := range fleet.VolumeStates() {
		require.True(t, all[0].hasText("volume.state."+s), s)
	}
	for _, s := range fleet.SnapshotStates() {
		require.True(t, all[0].hasText("snapshot.state."+s), s)
	}
	for _, s := range fleet.PoolStates() {
		require.True(t, all[0].hasText("pool.state."+s), s)
	}
	for key, text := range access.Texts() {
		require.Equal(t, text, all[0].texts[key])
	}
	for _, c := range columns {
		require.True(t, all[0].hasText("column."+c), c)
		require.Contains(t, orders, c)
	}
}

func TestTextWithValues(t *testing.T) {
	t.Parallel()
	lang := &tongue{texts: map[string]string{"a": "{1} of {0}"}}
	require.Equal(t, "x of 3", lang.textOf("a", 3, "x"))
	require.Equal(t, "Unheard", lang.textOf("condition.Unheard"), "what has no text is shown by its name")
}
