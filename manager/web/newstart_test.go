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
	require.Contains(t, page, "fedora/43 (5 GiB, already downloaded from example.org)")
	require.Contains(t, page, `name="name" value="debian-12-2"`)
	for _, part := range []string{"name: debian-12-2\n", "image: debian/12\n", "user: joe\n", "ssh-ed25519 AAAA joe"} {
		require.Contains(t, page, part)
	}
	suggested := []string{
		"do", "check", "name", "debian-12-2", "suggested.name", "debian-12-2", "origin", "image:fedora/43",
		"type", "cloud", "cpus", "1", "ram", "1 GiB", "disk", "20 GiB",
	}
	_, page = p.submit("/new", suggested...)
	require.Contains(t, page, `name="name" value="fedora-43"`, "the name follows the image")
	require.Contains(t, page, "image: fedora/43\n")
	suggested[3] = "mine"
	_, page = p.submit("/new", suggested...)
	require.Contains(t, page, `name="name" value="mine"`, "the user's name stays")
	require.NotContains(t, page, `name="suggested.name"`)
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

// The sizes and the start follow the type until the user changes them. A type whose guests need drivers leads to a CD.
func TestSuggestionsFollowTheType(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.offer.CDs = []string{"/iso/win11.iso"}
	_, page := p.call("GET", "/new", "")
	require.Contains(t, page, `name="suggested.ram" value="2 GiB"`)
	require.Contains(t, page, `<fieldset id="group-drivers" class="card part forcd" hidden>`)
	form := []string{
		"do", "check", "type", "windows", "name", "debian-12", "suggested.name", "debian-12",
		"origin", "image:debian/12", "suggested.origin", "image:debian/12", "cpus", "2", "suggested.cpus", "2",
		"ram", "2 GiB", "suggested.ram", "2 GiB", "disk", "20 GiB", "suggested.disk", "20 GiB", "disk", "1 GiB",
		"user", "joe", "suggested.user", "joe", "key", "ssh-ed25519 AAAA joe", "suggested.key", "ssh-ed25519 AAAA joe",
		"screen", yes,
	}
	_, page = p.submit("/new", form...)
	for _, part := range []string{
		`<option value="cd" selected>`, `name="cpus" value="4"`, `name="ram" value="8 GiB"`,
		`name="disk" value="64 GiB"`, `name="disk" value="1 GiB"`, `name="user" value=""`, `name="name" value="vm"`,
		`id="f-option.drivers" name="option.drivers"`, "slower hardware that the setup supports (bus: ide)",
		`<datalist id="f-cd-known"><option value="/iso/win11.iso">`,
	} {
		require.Contains(t, page, part)
	}
	form = append(form, "cd", "/iso/win11.iso")
	for i, word := range form {
		if word == "2 GiB" && form[i-1] == "ram" {
			form[i] = "3 GiB"
		}
	}
	_, page = p.submit("/new", form...)
	require.Contains(t, page, `name="ram" value="3 GiB"`, "what the user has entered stays")
	require.Contains(t, page, `name="name" value="win11"`)
	_, page = p.call("GET", "/new?name=web&type=windows", "")
	require.Contains(t, page, `name="cpus" value="4"`)
	require.Contains(t, page, `<option value="" selected>Blank disks</option>`, "an address has its own start")
}
