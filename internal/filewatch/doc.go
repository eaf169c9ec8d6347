// Package filewatch reports changes of files: of single files, including everything that their paths lead through
// ([Files]), or of all files in folders ([New]).
//
// It detects all kinds of changes:
//
//   - writing in place
//   - renaming over the file, as editors do
//   - replacing a symbolic link anywhere in its path (ConfigMaps, see
//     https://kubernetes.io/docs/concepts/configuration/configmap/)
//   - deleting and recreating the file or one of its folders
//
// On Linux the kernel reports changes via inotify(7) (inotify_linux.go). If that isn't possible (no inotify, its
// limits are reached, a network file system), the files are polled every second. For the reason not to use a library
// see docs/decisions/0019-inotify.md.
package filewatch
