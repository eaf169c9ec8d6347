package web

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The form suggests an image, a user with a key, and a name that no VM has.
func TestSuggestedStart(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("debian-12", "Stopped"))
	_, page := p.call("GET", "/new", "")
	require.Contains(t, page, `<option value="image:debian/12" selected>debian/12 (download from cloud.debian.org)</option>`)
	require.Contains(t, page, "fedora/43 (5 GiB, already downloaded)")
	require.Contains(t, page, `name="name" value="debian-12-2"`)
	for _, part := range []string{"name: debian-12-2\n", "image: debian/12\n", "user: joe\n", "ssh-ed25519 AAAA joe"} {
		require.Contains(t, page, part)
	}
	suggested := []string{
		"do", "check", "name", "debian-12-2", "suggested", "debian-12-2", "origin", "image:fedora/43",
		"type", "cloud", "cpus", "1", "ram", "1 GiB", "disk", "20 GiB",
	}
	_, page = p.submit("/new", suggested...)
	require.Contains(t, page, `name="name" value="fedora-43"`, "the name follows the image")
	require.Contains(t, page, "image: fedora/43\n")
	suggested[3] = "mine"
	_, page = p.submit("/new", suggested...)
	require.Contains(t, page, `name="name" value="mine"`, "the user's name stays")
	require.NotContains(t, page, `name="suggested"`)
}

// What a VM starts from needs an image or a medium. A disk can be a copy of one image only.
func TestFaultsOfTheStart(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	for _, c := range []struct{ field, text, origin, disk string }{
		{"origin", "There is no image named debian/7.", "image:debian/7", "1 GiB"},
		{"file", "Enter the path or URL of an image.", "file", "1 GiB"},
		{"cd", "Enter the path or URL of an ISO file.", "cd", "1 GiB"},
		{"disk.0", "this disk is a copy of the image", "image:debian/12", "/images/a.img"},
	} {
		answer, page := p.submit("/new", "do", "create", "name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB",
			"origin", c.origin, "disk", c.disk)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, c.field)
		require.Contains(t, faultsAt(page, c.field), c.text)
	}
	require.Empty(t, p.done)
}

// The form has three numbered steps. The other fields are in a closed part, which opens for values and errors.
func TestStepsOfTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	_, page := p.call("GET", "/new", "")
	steps := regexp.MustCompile(`<span class="step">\d</span> [^<]+`).FindAllString(page, -1)
	require.Equal(t, []string{
		`<span class="step">1</span> Start from`, `<span class="step">2</span> Size and disks`,
		`<span class="step">3</span> Log-in and network`,
	}, steps)
	require.Contains(t, page, `<details class="card advanced"><summary>`)
	_, page = p.call("GET", "/new?name=web&option.queues=many", "")
	require.Contains(t, page, `<details class="card advanced" open>`)
	require.Equal(t, "Secure boot", optionLabel("secureBoot"))
	require.Equal(t, "TPM", optionLabel("tpm"))
	require.Equal(t, "Hotplug CPUs", optionLabel("hotplugCpus"))
}
