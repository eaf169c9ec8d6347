package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/manager/web/fleet"
)

// submit sends a form like a browser without scripts. fields are name, value, name, value …
func (p *play) submit(path string, fields ...string) (*http.Response, string) {
	p.t.Helper()
	values := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	return p.call("POST", path, values.Encode(), "Sec-Fetch-Mode", "navigate")
}

// faultsAt returns the errors that a page shows at a field.
func faultsAt(page, id string) string {
	_, rest, _ := strings.Cut(page, `<div id="f-`+id+`-faults" class="faults">`)
	faults, _, _ := strings.Cut(rest, "</div>")
	return regexp.MustCompile("<[^>]*>").ReplaceAllString(faults, "")
}

// A link opens the filled-in form, and the form creates the VM that it describes.
func TestNewVMFromLink(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	answer, page := p.call("GET", "/new?name=web&cpus=3&ram=1.5+GiB&disk=20+GiB&disk=/images/a.img&network=none"+
		"&screen=no&option.tpm=false&option.tags=%5Bb%5D&password=canary", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NotContains(t, page, "canary", "an address can't have a password")
	for _, part := range []string{
		"name: web\n", "cpus: 3\n", "ram: 1610612736\n", "disks: [{21474836480  } {0 /images/a.img }]",
		"network: none\n",
		"screen: false\n", "options: map[tags:[b] tpm:false]", "-m 512M",
	} {
		require.Contains(t, page, part)
	}
	link := regexp.MustCompile(`href="(/new\?[^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, link)
	_, again := p.call("GET", html.UnescapeString(link[1]), "")
	require.Equal(t, page, again, "the link on the page leads to the same")

	answer, _ = p.submit("/new", "do", "create", "name", "web", "type", "standard", "cpus", "2", "ram", "1,5 GiB",
		"disk", "", "disk", "1 GiB", "network", "tap", "screen", yes, "start", yes, "user", "joe",
		"key", "ssh-ed25519 AAAA a\r\nssh-ed25519 AAAA b\r\n", "option.owner", `"joe": {`, "option.cache", "2 MiB")
	require.Equal(t, "/vms/web", answer.Header.Get("Location"))
	require.True(t, p.has("admin create web") && p.has("admin start web"))
	for _, part := range []string{
		"disks: [{1073741824  }]", `keys: ["ssh-ed25519 AAAA a" "ssh-ed25519 AAAA b"]`, `owner:"\"joe\": {"`,
		"cache:2097152",
	} {
		require.Contains(t, p.saved, part)
	}
	answer, page = p.submit("/new", "do", "create", "name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "name"), "A virtual machine named web already exists.", "a VM is made once")
}

// All errors are reported together, each at its field, and nothing is created.
func TestFaultsAtFields(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	answer, page := p.submit("/new", "do", "create", "type", "standard", "cpus", "0", "ram", "2",
		"disk", "1 GiB", "disk",
		"image", "key", "what", "option.queues", "x", "option.heap", "y", "user", "Joe")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	for id, text := range map[string]string{
		"name": "Enter a name", "cpus": "whole number", "ram": "size", "disk.0": "", "disk.1": "path of an image",
		"key": "not a public key", "option.queues": "whole number", "option.heap": "size", "user": "lower-case",
		"option.cache": "",
	} {
		got := faultsAt(page, id)
		require.Contains(t, got, text, id)
		require.Equal(t, text == "", got == "", "%s: %s", id, got)
	}
	require.Contains(t, page, "Errors (8)")
	require.Contains(t, page, `<a href="#f-disk.1">`)

	p.faulty["name: web"] = fleet.Faults{
		{Path: "vm.maximumCpus", Message: "more than <b>"},
		{Path: "vm.drives[0].size", Message: "too small"},
		{Path: "vm.options.tpm", Message: "no TPM"},
		{Path: "vm.powerdownTimeout", Message: "too long"},
	}
	_, page = p.submit("/new", "do", "check", "name", "web", "type", "standard", "cpus", "9", "ram", "1 GiB",
		"disk", "", "disk", "1 MiB")
	require.Contains(t, faultsAt(page, "cpus"), "more than &lt;b&gt;")
	require.Contains(t, faultsAt(page, "disk.1"), "too small")
	require.Contains(t, faultsAt(page, "option.tpm"), "no TPM")
	require.Contains(t, page, "vm.powerdownTimeout: too long")
	require.Empty(t, p.done)
	for fault, fields := range map[string][]string{
		"there is no VM type odd": {"name", "db", "type", "odd", "cpus", "1", "ram", "1 GiB"},
		"Enter a user name.":      {"name", "db", "type", "cloud", "cpus", "1", "ram", "1 GiB", "withpassword", yes},
		"private key and was": {
			"name", "db", "type", "cloud", "cpus", "1", "ram", "1 GiB", "key",
			"-----BEGIN OPENSSH PRIVATE KEY-----\r\ncanary",
		},
	} {
		answer, page = p.submit("/new", append(fields, "do", "create")...)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, fault)
		require.Contains(t, page, fault)
		require.NotContains(t, page, "canary")
	}
	require.Empty(t, p.done)
	answer, page = p.submit("/new", "do", "disk", "name", "db", "type", "cloud", "disk", "1 GiB",
		"cpus", "1", "ram", "1 GiB")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, page, `id="f-disk.1"`)
}

// Errors from the check of the definition are shown at their fields, together with the errors of unreadable fields.
func TestTheCheckDoesNotWaitForOtherFields(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.faulty["name: new-virtual-machine"] = fleet.Faults{
		{Path: "vm.drives[1].file", Message: "no such medium"},
		{Path: "vm.maximumCpus", Message: "of a default"},
		{Path: "vm.name", Message: "of a default"},
	}
	answer, page := p.submit("/new", "do", "create", "type", "standard", "cpus", "0", "ram", "1 GiB",
		"disk", "1 GiB", "cd", "/nowhere/a.iso", "network", "user")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "name"), "Enter a name")
	require.Contains(t, faultsAt(page, "cpus"), "whole number")
	require.Contains(t, faultsAt(page, "cd"), "no such medium")
	require.NotContains(t, page, "of a default")
	require.Empty(t, p.done)
}

// A definition edited by hand replaces the fields, until the user returns to the fields.
func TestDefinitionByHand(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	fields := []string{"name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB"}
	_, page := p.submit("/new", append(fields, "do", "check")...)
	drafted := regexp.MustCompile(`name="drafted" value="([^"]+)"`).FindStringSubmatch(page)[1]
	by := func(do, text string) (*http.Response, string) {
		return p.submit("/new", append(fields, "do", do, "drafted", drafted, "definition", text)...)
	}
	_, page = by("check", "by: hand\r\n")
	require.Contains(t, page, "Manual changes override the form")
	require.Contains(t, page, "by: hand\n</textarea>")
	_, page = by("fields", "by: hand\r\n")
	require.NotContains(t, page, "by: hand")
	require.Contains(t, page, "name: web")

	p.faulty["by: mistake"] = fleet.Faults{{Path: "by", Line: 1, Message: "unknown <key>"}}
	answer, page := by("create", "by: mistake\r\n")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, page, `data-line="1"`)
	require.Contains(t, page, "<code>by</code> unknown &lt;key&gt;")
	answer, _ = by("create", "by: hand\r\n")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "by: hand\n", p.saved)
	require.False(t, p.has("admin start web"))
}

// A password reaches the definition only as a hash, and appears on no page, in no log and in no record.
func TestPasswordGoesNowhereElse(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var log bytes.Buffer
	p.server.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	fields := []string{"name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB", "user", "joe"}
	_, page := p.submit("/new", append(fields, "do", "check", "password", "canary")...)
	require.Contains(t, page, fleet.NewPassword)
	require.Contains(t, page, `name="withpassword" value="yes" checked`)
	pages := page
	answer, page := p.submit("/new", append(fields, "do", "create", "withpassword", yes)...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "password"), "Enter the password again")
	pages += page
	answer, page = p.submit("/new", append(fields, "do", "create", "password", "canary"+strings.Repeat("x", 300))...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	pages += page
	p.faulty["$6$"] = fleet.Faults{{Path: "cloudInit.userData", Message: "refused"}}
	answer, page = p.submit("/new", append(fields, "do", "create", "password", "canary")...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "user"), "refused")
	pages += page
	delete(p.faulty, "$6$")
	answer, _ = p.submit("/new", append(fields, "do", "create", "password", "canary")...)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Regexp(t, `passwd: \$6\$rounds=`, p.saved)
	for _, text := range []string{pages, p.saved, log.String(), strings.Join(p.done, "\n")} {
		require.NotContains(t, text, "canary")
	}
	require.NotContains(t, pages, "$6$", "nor is the hash shown")
	require.NotContains(t, log.String(), "$6$")
}

// Without permission to create, change or delete VMs, a visitor is refused on the page and by the action, with the
// reason.
func TestDefinitionsNeedPermissions(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Stopped))
	p.allow("guest", "start")
	_, list := p.call("GET", "/", "", "Test-User", "guest")
	require.Contains(t, list, `<button id="new" class="primary" disabled title="you do not have the permission create`)
	_, page := p.call("GET", "/vms/web", "", "Test-User", "guest")
	require.Contains(t, page, `<button id="edit" class="" disabled title="you do not have the permission edit`)
	require.Contains(t, page, `<button id="delete" class="danger" disabled`)
	for _, path := range []string{"/new", "/vms/web/edit", "/vms/web/delete"} {
		for _, method := range []string{"GET", "POST"} {
			body := ""
			if method == "POST" {
				body = "name=web&do=save&version=1&definition=x"
			}
			answer, text := p.call(method, path, body, "Test-User", "guest")
			require.Equal(t, http.StatusForbidden, answer.StatusCode, path)
			require.Contains(t, text, "you do not have the permission")
			answer, _ = p.call(method, path, body, "Test-User", "stranger")
			require.NotEqual(t, http.StatusOK, answer.StatusCode, path)
		}
	}
	require.Empty(t, p.done)
	p.allow("guest", "create")
	answer, _ := p.call("POST", "/new", "name=db&type=cloud&cpus=1&ram=1+GiB&do=create&start=yes",
		"Test-User", "guest")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Len(t, answer.Cookies(), 1, "to start it needs another permission, and its page shows that")
	_, text := p.call("GET", "/vms/db", "", "Test-User", "guest", "Cookie", answer.Cookies()[0].String())
	require.Contains(t, text, "db was created but not started: ")
	require.Equal(t, []string{"guest create db"}, p.done)
}

// A disk has a storage class if there are classes: from a list that shows the default or, if the classes are not known,
// as text.
func TestStorageClassesInTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	const link = "/new?name=web&disk=1+GiB&disk=2+GiB&class=&class=fast"
	form := func(path, language string) string {
		_, page := p.call("GET", path, "", "Accept-Language", language)
		return page
	}
	require.NotContains(t, form(link, "en"), "torage class", "on one computer disks have none")

	p.offer.Classes = &fleet.Classes{Names: []string{"fast", "slow"}, Default: "fast"}
	page := form(link, "en")
	require.Contains(t, page, `>Storage class of disk 1</label>
  <select id="f-class.0" name="class" aria-describedby="f-class.0-faults"><option value="">Default: fast</option>`+
		`<option value="slow">slow</option></select>`)
	require.Contains(t, page, `<option value="fast" selected>fast</option><option value="slow">slow</option></select>`)
	require.Contains(t, page, "disks: [{1073741824  } {2147483648  fast}]")
	require.Contains(t, form(link, "de"), `<option value="">Standard: fast</option>`)
	require.Contains(t, form(link+"er", "en"), `<option value="faster" selected>faster</option>`, "it may come yet")

	p.offer.Classes = &fleet.Classes{Names: []string{}}
	require.Contains(t, form(link, "en"), `<option value="">None: the cluster has no default class</option></select>`)
	require.Contains(t, form(link, "de"), `<option value="">Keine: Der Cluster hat keine Standardklasse</option></select>`)

	p.offer.Classes = &fleet.Classes{}
	page = form(link, "en")
	require.Contains(t, page, `<input type="text" id="f-class.0" name="class" value="" placeholder="Default"`)
	require.Contains(t, page, `<input type="text" id="f-class.1" name="class" value="fast" placeholder="Default"`)
	address := html.UnescapeString(regexp.MustCompile(`href="(/new\?[^"]+)"`).FindStringSubmatch(page)[1])
	require.Equal(t, page, form(address, "en"), "the link has the class")

	fields := []string{"do", "create", "name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB", "disk", "1 GiB"}
	answer, page := p.submit("/new", append(fields, "class", "<b> Fast")...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "class.0"), "lower-case letters")
	require.Contains(t, page, `<a href="#f-class.0">`)
	require.NotContains(t, page, "<b> Fast")
	answer, _ = p.submit("/new", append(fields, "class", " rook-ceph.block ")...)
	require.Equal(t, "/vms/web", answer.Header.Get("Location"))
	require.Contains(t, p.saved, "disks: [{1073741824  rook-ceph.block}]")
}

// A VM of a cluster has a run policy if one is chosen; VMs on one computer have none.
func TestRunPolicyInTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	_, page := p.call("GET", "/new?name=web", "")
	require.NotContains(t, page, "f-policy")
	p.offer.RunPolicies = []string{"AlwaysOnUnlessStoppedManually", "Manual", "AlwaysOff"}
	_, page = p.call("GET", "/new?name=web&policy=Manual", "")
	require.Contains(t, page, `<option value="Manual" selected>Start manually; don&#39;t restart after a crash (Manual)</option>`)
	require.Contains(t, page, "policy: Manual\n")
	address := html.UnescapeString(regexp.MustCompile(`href="(/new\?[^"]+)"`).FindStringSubmatch(page)[1])
	require.Contains(t, address, "policy=Manual")
	_, page = p.call("GET", "/new?name=web", "", "Accept-Language", "de")
	require.Contains(t, page, `<option value="AlwaysOff">Nie ausführen (AlwaysOff)</option>`)
	p.faulty["policy: Always\n"] = fleet.Faults{{Path: "spec.runPolicy", Message: "Unsupported value"}}
	_, page = p.submit("/new", "do", "create", "name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB",
		"policy", "Always")
	require.Contains(t, faultsAt(page, "policy"), "Unsupported value")
}

// offerClasses offers two classes. The second is the default.
func (p *play) offerClasses() {
	p.offer.VMClasses = []fleet.VMClass{
		{
			Name: "office", Type: "cloud", Network: "tap", Options: []string{"image"},
			Sizes: []string{"1 to 4 CPUs with RAM of 1Gi to 16Gi", "6 to 16 CPUs in steps of 2"},
			Fractions: []fleet.Fractions{
				{Least: 1, Most: 4, Allowed: []string{"10%", "20%"}, Preset: "20%"},
				{Least: 6, Most: 16, Preset: "50%"},
			},
		},
		{Name: "plain", Preset: true},
	}
}

// A VM of a cluster has a class if one is chosen. The form shows the allowed sizes, and omits values that the class
// sets.
func TestClassInTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	form := func(path, language string) string {
		_, page := p.call("GET", path, "", "Accept-Language", language)
		return page
	}
	require.NotContains(t, form("/new?name=web", "en"), "f-vmclass", "there is none")
	require.NotContains(t, form("/new?name=web&share=7", "en"), "share: ", "nor what goes with it")
	p.offerClasses()
	page := form("/new?name=web", "en")
	for _, part := range []string{
		`<option value="" selected>Default: plain</option><option value="office">office</option>`,
		"VMs can have any size.", `<option value="" selected>Default: standard</option>`,
		`<option value="" selected>Default: User (outgoing connections only)</option>`, "type: \n", "network: user\n",
	} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, "class: ")

	page = form("/new?name=web&vmclass=office", "en")
	for _, part := range []string{
		`<option value="office" selected>office</option>`,
		"Allowed sizes: 1 to 4 CPUs with RAM of 1Gi to 16Gi; 6 to 16 CPUs in steps of 2.",
		`<option value="" selected>Default: cloud</option>`,
		`<option value="" selected>Default: Tap (bridge on the host)</option>`,
		"class: office\n", "type: \n", "network: \n",
	} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, "f-option.tpm", "the options are the options of the class's type")
	address := html.UnescapeString(regexp.MustCompile(`href="(/new\?[^"]+)"`).FindStringSubmatch(page)[1])
	require.Equal(t, page, form(address, "en"), "the link has the class")
	require.Contains(t, form("/new?name=web&vmclass=office", "de"), "Erlaubte Größen: 1 to 4 CPUs")

	const share = "Guaranteed share of each CPU"
	require.Contains(t, page, share+". The class allows 10%, 20%. Default: 20%")
	require.Contains(t, form("/new?name=web&vmclass=office&cpus=8", "en"), share+", 1% to 100%. Default: 50%")
	require.Contains(t, form("/new?name=web&vmclass=plain&share=7", "en"), "share: 7%\n")
	require.Contains(t, faultsAt(form("/new?name=web&share=0%25", "en"), "share"), "Enter a whole percentage")
	p.faulty["share: 30%\n"] = fleet.Faults{{Path: "spec.cpu.coreFraction", Message: "is 30%"}}
	require.Contains(t, faultsAt(form("/new?name=web&share=30%25", "en"), "share"), "is 30%")

	page = form("/new?name=web&vmclass=office&type=standard&network=none", "en")
	require.Contains(t, page, "type: standard\n")
	require.Contains(t, page, "network: none\n")
	require.Contains(t, form("/new?name=web&vmclass=late", "en"), `<option value="late" selected>late</option>`,
		"it may be ready yet")

	p.faulty["class: office\n"] = fleet.Faults{{
		Path: "spec.virtualMachineClassName", Message: "spec.vm.maximumCpus is 5",
	}}
	answer, page := p.submit("/new", "do", "create", "name", "web", "vmclass", "office", "cpus", "5", "ram", "1 GiB")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "vmclass"), "spec.vm.maximumCpus is 5")
}

// Options that a class sets are not mandatory, even if the manager doesn't know the class's type.
func TestClassWithATypeOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.mandatory = true
	fields := []string{"do", "create", "name", "web", "cpus", "1", "ram", "1 GiB"}
	p.offer.VMClasses = []fleet.VMClass{{Name: "own", Type: "unknown"}, {Name: "desk", Options: []string{"owner"}}}
	answer, page := p.submit("/new", append(fields, "vmclass", "")...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "option.owner"), "requires a value")
	answer, page = p.submit("/new", append(fields, "vmclass", "own", "type", "unknown")...)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, faultsAt(page, "type"), "there is no VM type unknown")
	for _, class := range []string{"own", "desk"} {
		fields[3] = class
		answer, page = p.submit("/new", append(fields, "vmclass", class)...)
		require.Equal(t, "/vms/"+class, answer.Header.Get("Location"), page)
		require.Contains(t, p.saved, "class: "+class)
	}
}

// Options have their labels, and those of a group are below its heading. Numbers keep their units.
func TestLabelsAndGroupsOfOptions(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	_, page := p.call("GET", "/new?name=web&type=service&option.idle=1h30m&option.weight=7%25", "")
	for _, part := range []string{
		`<label for="f-option.env">Environment</label>`, `<legend>Operation</legend>`,
		`placeholder="OPS-17"`, `(like OPS-17)</p>`, `Deprecated: use ticket.</p>`,
		`Default: an hour in production. (at most 1d)</p>`,
		`options: map[idle:&#34;1h30m&#34; weight:&#34;7%&#34;]`,
	} {
		require.Contains(t, page, part)
	}
	_, part, found := strings.Cut(page, `<fieldset class="card part">`)
	require.True(t, found)
	part, rest, _ := strings.Cut(part, `</fieldset>`)
	for name, inside := range map[string]bool{"ticket": true, "idle": true, "env": false, "weight": false} {
		require.Equal(t, inside, strings.Contains(part, "f-option."+name), name)
	}
	require.NotContains(t, rest, "<legend>Operation")
	p.faulty["weight"] = fleet.Faults{{Path: "vm.options.idle", Message: "too long"}}
	_, page = p.submit("/new", "do", "check", "name", "web", "type", "service", "cpus", "1", "ram", "1 GiB",
		"option.weight", "1")
	require.Contains(t, faultsAt(page, "option.idle"), "too long")
	require.Contains(t, page, `<a href="#f-option.idle">`, "the summary contains fields of groups")
}

// A user can't set an option that the class locks.
func TestLockedOptionsInTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.offer.VMClasses = []fleet.VMClass{{Name: "prod", Type: "service", Locked: []string{"env"}}}
	_, page := p.call("GET", "/new?name=web&vmclass=prod&option.env=dev&option.weight=1", "")
	require.Regexp(t, `<select id="f-option.env" disabled`, page)
	require.Contains(t, page, "The class prod sets this option.")
	require.NotContains(t, page, `<option value="dev" selected>`)
	require.Contains(t, page, "options: map[weight:&#34;1&#34;]")
}
