package provision

// File is a small file that a container, or a process, finds when it starts. It is
// copied, not mounted: nothing of it is left on the host.
type File struct {
	Name string `json:"name"` // in [FilesDir]; of a process, in the directory that it starts in
	Text Text   `json:"text"`
}

// FilesDir is where a container finds its files.
const FilesDir = "/hcl"
