package docs_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"vmop/test/pages"
)

// Every block of commands is valid shell, and everything that it uses exists: make targets, resources of kubectl, files
// of the project. Each program's own tests compare its commands with its verbs and flags.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	documents, err := pages.All("..")
	require.NoError(t, err)
	makefile, known := read(t, "../Makefile"), kinds(t)
	programs := strings.Fields("make kubectl vmrunner vmmanager vmimport curl")
	count, ofVerb := map[string]int{}, map[string][]pages.Command{}
	for _, page := range documents {
		for _, b := range page.Blocks {
			first, _, _ := strings.Cut(b.Text, " ")
			if b.Language == "" && slices.Contains(programs, first) {
				t.Errorf("%s:%d: a block of commands has the language sh", page.File, b.Line)
			}
		}
		commands, err := page.Commands("make", "kubectl")
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			fault := ""
			switch c.Words[0] {
			case "make":
				fault = makeFault(makefile, c.Words[1:])
			case "kubectl":
				fault = kubectlFault(known, c.Words[1:])
				if len(c.Words) > 1 {
					ofVerb[c.Words[1]] = append(ofVerb[c.Words[1]], c)
				}
			}
			if fault != "" {
				t.Errorf("%s: %s: %s", c.At, strings.Join(c.Words, " "), fault)
			}
			count[c.Words[0]]++
		}
	}
	for _, commands := range ofVerb {
		requireFlags(t, commands)
	}
	require.Greater(t, count["make"], 40)
	require.Greater(t, count["kubectl"], 60)
}

// makeFault returns the first target or variable that the Makefile lacks, as a message.
func makeFault(makefile string, args []string) string {
	for i, word := range args {
		variable, _, sets := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, "-") || i > 0 && args[i-1] == "-C":
		case sets && !strings.Contains(makefile, "$("+variable):
			return "make has no variable " + variable
		case !sets && !strings.Contains("\n"+makefile, "\n"+word+":") && !strings.Contains(makefile, " "+word+":") &&
			!strings.Contains(makefile, "\n"+word+" "):
			return "make has no target " + word
		}
	}
	return ""
}

// kinds returns kubectl's names for the project's resources, and for the Kubernetes resources that the pages use.
func kinds(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../deploy/crds/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := strings.Fields("configmap deploy deployment events events.events.k8s.io lease namespace nodes pod pods pvc " +
		"pdb secret service vmi") // the last is from KubeVirt
	for _, file := range files {
		var crd apiextensions.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), &crd))
		names := crd.Spec.Names
		all = append(append(all, names.ShortNames...), names.Plural, names.Singular)
	}
	return all
}

// requireFlags requires that kubectl knows the flags of the commands, which use the same verb. With --help, kubectl
// only parses the flags. The plugin's own test checks its flags.
func requireFlags(t *testing.T, commands []pages.Command) {
	t.Helper()
	var args []string
	for _, c := range commands {
		end := slices.Index(append(slices.Clone(c.Words), "--"), "--")
		args = append(args, c.Words[1:end]...)
	}
	if args[0] == "vmop" || args[0] == "krew" {
		return
	}
	out, err := exec.CommandContext(t.Context(), "kubectl", append(args, "--help")...).CombinedOutput()
	switch {
	case err == nil:
	case len(commands) == 1:
		t.Errorf("%s: %s: %s", commands[0].At, strings.Join(commands[0].Words, " "), out)
	default: // find the wrong command
		for _, c := range commands {
			requireFlags(t, []pages.Command{c})
		}
	}
}

// kubectlFault returns a message about the first resource that the API lacks, or the first file that the project lacks.
func kubectlFault(known, args []string) string {
	withValue := strings.Fields("-c -n -o -l -p --type --patch --replicas --context --raw")
	var words []string
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		value := args[min(i+1, len(args)-1)]
		switch flag := args[i]; {
		case flag == "-f" || flag == "-k":
			found, _ := filepath.Glob(filepath.Join("..", value))
			if found == nil && !strings.HasPrefix(value, "build/") {
				return "the project has no " + value
			}
			i++
		case flag == "--for": // events have no "=", conditions do
			words = append(words, value)
			i++
		case slices.Contains(withValue, flag):
			i++
		case !strings.HasPrefix(flag, "-"):
			words = append(words, flag)
		}
	}
	ofKinds := strings.Fields("get describe delete patch wait label edit events annotate")
	if len(words) < 2 || !slices.Contains(ofKinds, words[0]) {
		return ""
	}
	kind, _, _ := strings.Cut(words[1], "/")
	for one := range strings.SplitSeq(kind, ",") {
		if !slices.Contains(known, one) {
			return "kubectl has no resource " + one
		}
	}
	return ""
}
