package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "Manage images for disks", Args: cli.NoArguments,
		Long: "Manage the image cache. An image is fetched once and copied to each disk, so you can\n" +
			"remove it at any time. IMAGE is a name, such as debian/12, or a URL.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImageList(), newImagePull(), newImageRemove())
	return cmd
}

func newImageList() *cobra.Command {
	var form string
	var known bool
	cmd := &cobra.Command{
		Use: "list", Short: "List cached images, or images with names", Args: cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := images.NewCache(config.HostEnv())
			if err != nil {
				return err
			}
			if known {
				return listKnown(cmd, cache, form)
			}
			list, err := cache.Images()
			if form != "table" || err != nil {
				return errors.Join(cli.PrintValue(cmd.OutOrStdout(), form, nonNilList(list)), err)
			}
			if list == nil {
				cmd.PrintErrln("the cache has no image; vmrunner image list --known lists those that have names")
				return nil
			}
			rows := [][]string{{"IMAGE", "SIZE", "STORED", "FETCHED", "ID"}}
			for _, i := range list {
				fetched := i.Fetched.Local().Format("2006-01-02 15:04")
				rows = append(rows, []string{i.Source, formatBytes(i.Size), formatBytes(i.Stored), fetched, i.ID})
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().BoolVar(&known, "known", false, "list the images that have names, and their URLs")
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	return cmd
}

// nonNilList returns the list, or an empty list instead of nil, for JSON output.
func nonNilList[T any](list []T) []T { return append([]T{}, list...) }

func listKnown(cmd *cobra.Command, cache *images.Cache, form string) error {
	list, err := images.Read(cache.Lists...)
	if err != nil {
		return err
	}
	if form != "table" {
		return cli.PrintValue(cmd.OutOrStdout(), form, list)
	}
	rows := [][]string{{"IMAGE", "URL"}}
	for _, k := range list {
		rows = append(rows, []string{k.Name, images.Shown(k.URL)})
	}
	return cli.Table(cmd.OutOrStdout(), rows)
}

// completeImages completes image names.
func completeImages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cache, err := images.NewCache(config.HostEnv())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := images.Read(cache.Lists...) // the verb itself reports the error
	names := make([]string, len(list))
	for i, k := range list {
		names[i] = k.Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// sourceOf returns the source in a user's input, with an absolute path.
func sourceOf(text, checksum string) (images.Source, error) {
	if faults := vmspec.CheckSource(text, checksum); faults != nil {
		f := faults[0]
		return images.Source{}, cli.UsageError{Err: fmt.Errorf("%s (%s)", f.Message, f.Hint)}
	}
	if vmspec.SourceKindOf(text) != vmspec.SourceFile {
		return images.Source{Text: text, Checksum: checksum}, nil
	}
	path, err := filepath.Abs(text)
	return images.Source{Text: path, Checksum: checksum}, err
}

func newImagePull() *cobra.Command {
	var checksum string
	cmd := &cobra.Command{
		Use: "pull IMAGE", Short: "Fetch or update an image in the cache",
		Long: "Fetch an image into the cache. A cached image is fetched again unless the publisher's\n" +
			"checksum shows that it is current. Existing disks stay unchanged. If a configuration sets\n" +
			"sourceChecksum, give the same --checksum, because the cache keeps such images separately.",
		Args: cli.Arguments(1, 1), ValidArgsFunction: completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := images.NewRemote(args[0], checksum)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			cache, err := images.NewCache(config.HostEnv())
			if err != nil {
				return err
			}
			shown := cli.NewProgress(cmd)
			fetched, err := cache.Pull(cmd.Context(), source, true, imageProgress(shown))
			shown.End()
			switch {
			case err != nil:
				return err
			case fetched:
				cmd.PrintErrln("in the cache:", cli.Printable(args[0]))
			default:
				cmd.PrintErrln("the cache has what the publisher has")
			}
			return nil
		},
	}
	cli.ChecksumFlag(cmd.Flags(), &checksum, "the transferred data")
	return cmd
}

func newImageRemove() *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use: "remove IMAGE…", Short: "Remove images from the cache", SuggestFor: []string{"rm", "delete", "prune"},
		Long: "Remove images from the cache by name, URL or ID. Disks that were created from them are\n" +
			"kept.",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cachedImages(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if everything == (len(args) > 0) {
				return cli.UsageError{Err: errors.New("which image? Specify its name, URL or ID, or --all")}
			}
			cache, err := images.NewCache(config.HostEnv())
			if err != nil {
				return err
			}
			var removed []images.Cached
			if everything {
				removed, err = cache.RemoveAll(cmd.Context())
			}
			for _, image := range args {
				some, e := cache.Remove(cmd.Context(), image)
				removed, err = append(removed, some...), errors.Join(err, e)
			}
			for _, image := range removed {
				cmd.PrintErrln("removed:", cli.Printable(image.Source), formatBytes(image.Stored))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "remove all images, and what interrupted downloads have left")
	return cmd
}

// cachedImages returns the images in the cache, for completion.
func cachedImages() (names []string) {
	cache, err := images.NewCache(config.HostEnv())
	if err != nil {
		return nil
	}
	list, _ := cache.Images() // the verb itself reports the error
	for _, image := range list {
		names = append(names, image.Source)
	}
	return slices.Compact(names)
}
