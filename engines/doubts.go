package engines

const (
	flagsBesideCommand = "The lab gives the whole command of the server, so its flags are in it: those in flags are not " +
		"passed on. Put them into command, or remove one of the two."
	imageOfOther = "The image %s is of kind %q by its name, and this engine is of kind %q: its command would not be there."
	noRevision   = "TensorRT-LLM takes the repository's default branch: not all of its versions have a flag for a revision, " +
		"so hcl gives none. Where yours has it, say it in flags = { revision = %q }; else serve a directory of the host " +
		"that holds that revision."
	unevenGPUs = "The flags ask for %d of %d GPUs (tensor × pipeline × data parallel), which do not divide them evenly. " +
		"Models are rarely made for such a number."
	lowPort = "Ports below 1024 are for root, and often taken: 22 is SSH's. Write one above, such as 8000."
)

// Doubts are what hardly works, or does not do what it seems to; none of it is certain.
func Doubts(e *Engine) []FieldError {
	var found findings
	k := kinds[e.Kind]
	if e.Port > 0 && e.Port < 1024 && e.Kind != External {
		found.add("port", lowPort)
	}
	if e.Command != nil {
		if e.Kind != External && len(e.Flags) > 0 {
			found.add("flags", flagsBesideCommand)
		}
		return found
	}
	if other := imageOf(e); other != "" {
		found.add("image", imageOfOther, e.Image, other, e.Kind)
	}
	_, said := e.Flag("revision")
	if k.needsModel && !k.revisionFlag && !said && e.Build == nil && e.Model != nil && e.Model.Revision != "" {
		found.add("model", noRevision, e.Model.Revision)
	}
	if e.Host != nil && e.Host.GPUs.Count > 0 && k.needsModel {
		there := e.Host.GPUs.Count
		if n := len(e.Container.GPUIDs); n > 0 {
			there = n
		}
		if need := GPUs(e); need > 0 && need < there && there%need != 0 {
			found.add("flags", unevenGPUs, need, there)
		}
	}
	return found
}
