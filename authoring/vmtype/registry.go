package vmtype

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/diskimage"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/vmtypes"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/signature"
)

// registryHelp is for the help of the verbs that use registries.
const registryHelp = "REF is REGISTRY/REPOSITORY:TAG, or @sha256:… instead of the tag. Credentials are taken from\n" +
	"\"docker login\" (or podman, oras), credential helpers included."

// rangeHelp is for the help of the verbs that read a type.
const rangeHelp = "Instead of the tag, REF may have a range of versions: :^1.2 is the newest tag from 1.2.0 below\n" +
	"2.0.0, :~1.2 below 1.3.0, and \":>=1.2,<1.5\" between the two."

// keysFlag adds the flag for keys that must have signed a type.
func keysFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "key", nil,
		"require a signature with this public key (PEM `FILE`); may be repeated")
	cli.CompleteFile(cmd, "key", "pub", "pem")
}

// readKeys reads files with public keys.
func readKeys(files []string) (keys []signature.Key, err error) {
	for _, file := range files {
		text, err := readfile.ReadFile(file, mostKey)
		if err != nil {
			return nil, cli.UsageError{Err: fmt.Errorf("--key: %w", err)}
		}
		key, err := signature.ReadKey(text)
		if err != nil {
			return nil, cli.UsageError{Err: fmt.Errorf("--key %s: %w", file, err)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// The maximum sizes of files with authorities, and with a key, in bytes.
const (
	mostCA  = 1 << 20
	mostKey = 64 << 10
)

// registryFlags are the flags for access to registries.
type registryFlags struct {
	plain bool
	ca    string
}

func (r *registryFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.plain, "plain-http", false, "permit http, even with other computers")
	cmd.Flags().StringVar(&r.ca, "ca", "", "`FILE` with additional trusted authorities (PEM)")
	cli.CompleteFile(cmd, "ca", "pem", "crt")
}

// openRegistry returns the settings for access to registries.
func (r *registryFlags) openRegistry() (artifact.Registry, error) {
	a := artifact.Registry{Keychain: authn.DefaultKeychain, PlainHTTP: r.plain}
	if r.ca == "" {
		return a, nil
	}
	var err error
	if a.CABundle, err = readfile.ReadFile(r.ca, mostCA); err != nil {
		err = cli.UsageError{Err: fmt.Errorf("--ca: %w", err)}
	}
	return a, err
}

// withFlagHint adds the flag that may help to an error of a registry.
func withFlagHint(err error) error {
	switch diskimage.ReasonOf(err) {
	case diskimage.InvalidSource:
		return cli.UsageError{Err: err}
	case diskimage.SourceUnauthorized:
		return fmt.Errorf("%w (docker login, podman login or oras login stores credentials)", err)
	case diskimage.CertificateInvalid:
		return fmt.Errorf("%w (--ca FILE)", err)
	case diskimage.SourceRefused:
		if strings.Contains(err.Error(), "does not speak TLS") {
			return fmt.Errorf("%w (--plain-http permits http)", err)
		}
	}
	return err
}

// typeToShare finds a type: the only type in a folder, a type in a file, or a type by its name.
func typeToShare(installed, what string) (dir, name string, err error) {
	if what == "." || strings.ContainsRune(what, filepath.Separator) && !strings.HasSuffix(what, ".star") {
		if err := requireFile("push", "folder", what); err != nil {
			return "", "", err
		}
		source, err := vmtypes.ReadSource(what)
		if err != nil {
			return "", "", err
		}
		switch names := share.Types(source); len(names) {
		case 1:
			return what, names[0], nil
		case 0:
			return "", "", cli.UsageError{Err: fmt.Errorf("there is no VM type in %s", what)}
		default:
			return "", "", cli.UsageError{Err: fmt.Errorf("there are several VM types in %s: name one of %s", what,
				strings.Join(names, ", "))}
		}
	}
	if strings.HasSuffix(what, ".star") {
		dir, name = filepath.Dir(what), strings.TrimSuffix(filepath.Base(what), ".star")
		return dir, name, requireFile("push", "file", what)
	}
	return typeFolderOf(installed, what), what, nil
}

// fetchUsable fetches a type and checks that it can be loaded.
func fetchUsable(ctx context.Context, from artifact.Registry, reference, image string) (share.Taken, error) {
	f, err := from.Fetch(ctx, reference)
	if err != nil {
		return share.Taken{}, withFlagHint(err)
	}
	t := evaluate.Type{Source: vmtypes.Source{Dir: image, Modules: f.Modules()}, Name: f.Name}
	if _, err := t.Describe(ctx); err != nil {
		return share.Taken{}, fmt.Errorf("VM type %s can't be loaded: %w", image, err)
	}
	return share.Taken{Fetched: f, Image: image}, nil
}
