// Package config reads the one YAML file that tells worker and enqueue what to
// do, and is strict about it: an unknown key, a wrong type, a key given twice or
// a value that cannot work is an [Error] with file:line:column, the line and what
// would be right. A key whose feature is not there yet is refused, never ignored.
//
// The way of a value:
//
//	flag > environment > file > default
//
// [Find] says which file, [Parse] and [Load] read it, [Config.Override] puts the
// environment and the flags on top; [Open] does all three. Nothing here connects
// to anything, and nothing after [Load] changes when the file does: a changed
// file applies at restart.
//
// Secrets. ${NAME} and ${file:/path} inside a string stay as written until
// [Secret.Resolve] is called at the moment of use, so that enqueue, which never
// calls a dependency, works in a shell without the secrets. [Config.ResolveSecrets]
// is the worker's check at start that all of them are there. A [Secret] never
// shows its text to fmt, log/slog or encoding/json, and an [Error] masks the
// secrets in the lines it shows.
//
// The decoder walks the syntax tree itself, instead of unmarshalling into
// structs, because validation needs the position of every value, also of those
// that came through an anchor or a merge key.
//
// Every key is described in docs/config.md.
package config
