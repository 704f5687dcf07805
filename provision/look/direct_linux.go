package look

import "syscall"

// direct opens a file so that it is read past the page cache.
const direct = syscall.O_DIRECT
