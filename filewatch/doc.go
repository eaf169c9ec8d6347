// Package filewatch reports when files have changed: single files, by whatever their
// paths lead through ([Files]), or all files of folders ([New]).
//
// A change is one however it is made: writing in place, renaming over the file
// (editors), swapping a symbolic link anywhere in its path (ConfigMaps, see
// https://kubernetes.io/docs/concepts/configuration/configmap/), deleting and
// making anew the file or a folder that it is in.
//
// On Linux the kernel reports changes, by inotify(7) (inotify_linux.go). Where it does
// not (no inotify, its limits are reached, a network file system) the files are polled
// every second. Why there is no library for this: docs/decisions/0019-inotify.md.
package filewatch
