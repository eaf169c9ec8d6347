package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// page returns the tables of a section of docs/reference/status.md: a row's cells by each word in backquotes in its
// first cell.
func page(t *testing.T, section string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/status.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			for _, word := range quoted(cells[1]) {
				require.NotContains(t, rows, word)
				rows[word] = cells[1:]
			}
		}
	}
	return rows
}

func quoted(cell string) (words []string) {
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		words = append(words, match[1])
	}
	return words
}

// constants returns the values of vmstatus's constants of a type.
func constants(t *testing.T, of string) (values []string) {
	t.Helper()
	files, err := filepath.Glob("../../vmstatus/*.go")
	require.NoError(t, err)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			kind, _ := spec.Type.(*ast.Ident)
			literal, _ := spec.Values[0].(*ast.BasicLit)
			if kind != nil && kind.Name == of && literal != nil {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	require.NotEmpty(t, values)
	return values
}

// The page documents exactly the existing states, reasons, conditions and members.
func TestTheStatusIsDocumented(t *testing.T) {
	t.Parallel()
	words := func(section string) (all []string) {
		for word := range page(t, section) {
			all = append(all, word)
		}
		return all
	}
	require.ElementsMatch(t, constants(t, "State"), words("States"))
	require.ElementsMatch(t, constants(t, "Reason"), words("Reasons"))
	managers := []string{
		string(vmstatus.ConditionVMTypeAccepted), string(vmstatus.ConditionReconciled),
		string(vmstatus.ConditionMigratable), string(vmstatus.ConditionSizingMatched),
	}
	require.ElementsMatch(t, constants(t, "ConditionType"), append(words("Conditions"), managers...))
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Status]()) {
		if field.IsExported() {
			names = append(names, nameOf(field))
		}
	}
	members := page(t, "Members")
	require.ElementsMatch(t, names, words("Members"))
	for member, of := range map[string]reflect.Type{
		"runner": reflect.TypeFor[Runner](), "qemu": reflect.TypeFor[QEMU](), "guest": reflect.TypeFor[Guest](),
		"addresses": reflect.TypeFor[Address](),
		"consoles":  reflect.TypeFor[Console](), "confinement": reflect.TypeFor[Confinement](),
		"configuration": reflect.TypeFor[Configuration](), "restartAwaitingChanges": reflect.TypeFor[Change](),
		"problems": reflect.TypeFor[Problem](), "outcome": reflect.TypeFor[Outcome](),
		"drives": reflect.TypeFor[Drive](),
	} {
		for _, field := range reflect.VisibleFields(of) {
			require.Contains(t, quoted(members[member][1]), nameOf(field), member)
		}
	}
}

func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// The page lists exactly the reasons of each condition. The test finds the reasons by evaluating all statuses that
// differ in the conditions' inputs.
func TestTheReasonsOfConditionsAreDocumented(t *testing.T) {
	t.Parallel()
	const theStates = "the state's"
	met := map[vmstatus.ConditionType]map[vmstatus.ConditionStatus]map[string]bool{}
	for _, s := range statuses() {
		for _, c := range deriveConditions(s) {
			if met[c.Type] == nil {
				met[c.Type] = map[vmstatus.ConditionStatus]map[string]bool{vmstatus.True: {}, vmstatus.False: {}}
			}
			reason := string(c.Reason)
			if c.Reason == s.Reason {
				reason = theStates
			}
			met[c.Type][c.Status][reason] = true
		}
	}
	for condition, cells := range page(t, "Conditions") {
		for i, status := range []vmstatus.ConditionStatus{vmstatus.True, vmstatus.False} {
			cell := cells[2+i]
			documented := map[string]bool{}
			for _, reason := range quoted(cell) {
				documented[reason] = true
			}
			if strings.Contains(cell, theStates) {
				documented[theStates] = true
			}
			require.Equal(t, met[vmstatus.ConditionType(condition)][status], documented, "%s %s", condition, status)
		}
	}
}

// statuses returns VMs in each state with each input of the conditions.
func statuses() (all []Status) {
	variants := []func(*Status){
		func(*Status) {},
		func(s *Status) { s.QEMU.Unresponsive = true },
		func(s *Status) { s.QEMU.RunState = "paused" },
		func(s *Status) { s.QEMU.RunState = "io-error" },
		func(s *Status) { s.QEMU.RunState = "guest-panicked" },
		func(s *Status) { s.QEMU.RunState = "internal-error" },
		func(s *Status) { s.Problems = []Problem{{Reason: vmstatus.ReasonGuestPanicked, Message: "x"}} },
		func(s *Status) { s.Problems = []Problem{{Path: "vm.currentCpus", Message: "x"}} },
		func(s *Status) { s.Problems = []Problem{{Path: "resetCounter", Message: "x"}} },
		func(s *Status) { s.Consoles = []Console{{Kind: Serial}} },
		func(s *Status) { s.Consoles = []Console{{Kind: VNC}} },
		func(s *Status) { s.VmopAgent = true },
		func(s *Status) { s.WantedUser = "alice" },
		func(s *Status) { s.WantedUser, s.VmopAgent = "alice", true },
		func(s *Status) { s.WantedUser, s.VmopAgent, s.LoggedInUser = "alice", true, "alice" },
		func(s *Status) { s.WantedUser, s.VmopAgent, s.LoginFailure = "alice", true, "no such user" },
		func(s *Status) { s.Configuration.Error = "x" },
		func(s *Status) { s.Configuration.Generation++ },
		func(s *Status) { s.RestartAwaitingChanges = []Change{{Path: "vm.firmware"}} },
		func(s *Status) { s.TPM = TPMWorks },
		func(s *Status) { s.TPM = TPMGone },
		func(s *Status) { s.Confinement = &Confinement{} },
		func(s *Status) { s.Confinement = &Confinement{Landlock: 7, OwnRoot: true} },
		func(s *Status) {
			s.Confinement = &Confinement{Landlock: 7, OwnRoot: true, Exempt: []string{"virtiofsd"}}
		},
	}
	for _, state := range []vmstatus.State{
		vmstatus.StateInitializing, vmstatus.StateStarting, vmstatus.StateBooting,
		vmstatus.StateBooted, vmstatus.StateTerminating, vmstatus.StateStopped,
	} {
		for _, vary := range variants {
			began := at(0)
			s := Status{
				State: state, Reason: state.DefaultReason(), Started: &began,
				Configuration: Configuration{Generation: 1, Applied: 1},
			}
			if state == vmstatus.StateInitializing || state == vmstatus.StateStarting {
				s.Started = nil
			}
			vary(&s)
			all = append(all, s)
		}
	}
	return all
}
