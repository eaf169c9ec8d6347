package prepare

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmtypes"
)

// Types from another runner are trusted like this side's own types only if they are identical byte for byte.
func TestTrustInReceivedTypes(t *testing.T) {
	t.Parallel()
	const begin = "VM type x.star\n\n-- x.star --\n"
	const a, b, c = begin + "a\n", begin + "b\n", begin + "c\n"
	received := func(text string) string { return string(vmtypes.MarkReceived([]byte(text))) }
	for what, tt := range map[string]struct {
		offered, library, kept string
		trusted                bool
		want                   trust
	}{
		"the library's":                              {a, a, "", false, asOwn},
		"the library's, and another is kept":         {a, a, b, false, asOwn},
		"the library's, and the source is trusted":   {a, a, "", true, asOwn},
		"the one that is kept":                       {a, b, a, false, asOwn},
		"the one that is kept, without a library":    {a, "", a, false, asOwn},
		"the one that came before":                   {a, b, received(a), false, limited},
		"the library's, that came before it was":     {a, a, received(a), false, asOwn},
		"another":                                    {a, b, c, false, refused},
		"another of a source that is trusted":        {a, b, c, true, limited},
		"another, and nothing is here":               {a, "", "", false, refused},
		"the same of a source that is trusted":       {a, "", "", true, refused},
		"nothing, and nothing is here":               {"", "", "", false, refused},
		"a mark of the source's, which is no secret": {received(a), a, "", false, refused},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bytes := func(text string) []byte {
				if text == "" {
					return nil
				}
				return []byte(text)
			}
			require.Equal(t, tt.want, trustOf(bytes(tt.offered), bytes(tt.library), bytes(tt.kept), tt.trusted))
		})
	}
}

// Names in an offer are checked against the rules for VMs, because they are used in file names, options and log lines.
func TestOffersAreChecked(t *testing.T) {
	t.Parallel()
	const uuid = "c5aeb560-ba7f-404f-afb6-6f5d6e6fb671"
	good := Offer{
		UUID: uuid, VMType: "mine", Archive: []byte("VM type mine.star\n"),
		Machines: map[string]string{"q35": "pc-q35-7.2"},
	}
	require.NoError(t, good.checkOffer("mine"))
	require.NoError(t, good.checkOffer("/elsewhere/mine.star"))
	for want, change := range map[string]func(o *Offer){
		"vmType is mine here, and standard at the source":        func(o *Offer) { o.VMType = "standard" },
		"vmType is mine here, and � � at the source":             func(o *Offer) { o.VMType = "\x1b\n\x07" },
		"read the source's VM type: not an archive of a VM type": func(o *Offer) { o.Archive = nil },
		"the source's VM type mine has another name, other": func(o *Offer) {
			o.Archive = []byte("VM type other.star\n")
		},
		"the source's uuid is not a uuid": func(o *Offer) { o.UUID = "../../x" },
		"the source's machine versions have a name": func(o *Offer) {
			o.Machines = map[string]string{"q35": "pc-q35-7.2\nx y"}
		},
		"the source's machine versions have a name that": func(o *Offer) {
			o.Machines = map[string]string{"q35": "a,b=c"}
		},
		"the source's machine versions have a name that no": func(o *Offer) {
			o.Machines = map[string]string{"": "pc-q35-7.2"}
		},
		"the source has too many machine versions": func(o *Offer) {
			o.Machines = map[string]string{}
			for i := range mostMachines + 1 {
				o.Machines[strings.Repeat("x", i+1)] = "y"
			}
		},
	} {
		o := good
		change(&o)
		require.ErrorContains(t, o.checkOffer("mine"), want)
	}
}

// A refusal lists the solutions on either side.
func TestARefusedTypeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	require.EqualError(t, refusedType("standard", "/types", nil),
		"the source's VM type standard is not the type of this "+
			"vmrunner, and a VM type chooses which programs run: on the target, use the version of vmrunner that first started the "+
			"source, or, if you trust the source, add --trust-source to vmrunner receive; or on the "+
			"source, use the target's version, with updateVmType: true, and restart the VM")
	require.EqualError(t, refusedType("web", "/types", nil), "the source's VM type web is not the one in /types, and "+
		"a VM type chooses which programs run: on the target, copy the source's files there, or, if you trust the "+
		"source, add --trust-source to vmrunner receive; or on the source, use the target's version, with "+
		"updateVmType: true, and restart the VM")
	require.EqualError(t, refusedType("web", "/types", errors.New("none")), "this side lacks the source's VM type "+
		"web, and a VM type chooses which programs run: copy the type's files to /types on the target (none)")
}

// An arriving guest's type that equals the target's own type is evaluated without limits. Any other version requires a
// trusted source.
func TestTheTypeOfAGuestThatComes(t *testing.T) {
	t.Parallel()
	const uuid = "c5aeb560-ba7f-404f-afb6-6f5d6e6fb671"
	const module = "def launch(vm, host):\n    return part(executable = \"/usr/bin/qemu-system-x86_64\")\n"
	const evil = "def launch(vm, host):\n    return part(executable = \"/tmp/evil\")\n"
	vm, types := hostileVM(t, "", false)
	folder.Fill(t, types, folder.Files{"mine.star": module})
	completes := func(archive []byte, trusted bool) error {
		t.Helper()
		next, err := Open(vm.File)
		require.NoError(t, err)
		o := Offer{UUID: uuid, VMType: "mine", Archive: archive}
		err = next.CompleteAs(t.Context(), Options{VMTypes: types}, o, trusted)
		if err == nil {
			vm = next
		}
		return err
	}
	own, err := loadsPin(t, types, filepath.Join(t.TempDir(), "none"), "mine", false)
	require.NoError(t, err)
	require.NoError(t, completes(own.Archive, false))
	require.False(t, vmtypes.IsReceived(vm.Pin.Archive))
	require.Equal(t, uuid, vm.Spec.UUID)

	harmless := []byte(archiveOf("# harmless\n" + module))
	require.ErrorContains(t, completes(harmless, false), "the source's VM type mine is not the one in "+types)
	require.NoError(t, completes(harmless, true))
	require.True(t, vmtypes.IsReceived(vm.Pin.Archive))
	require.ErrorContains(t, completes([]byte(archiveOf(evil)), true),
		"the program /tmp/evil is not in its list programs")
}
