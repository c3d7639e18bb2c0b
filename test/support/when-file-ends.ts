/**
 * What modules that tests share do when a test file ends: they are loaded once for many files, so that a hook of their
 * own would be heard at the end of the first file alone.
 *
 * Invariant: what was registered here is done after each file, after its own hooks; vitest.config.ts sees to that
 * (after-each-file.ts).
 */
type Action = () => void | Promise<void>

const actions: Action[] = []

/** Called once, when the module is loaded. */
export function whenFileEnds(action: Action): void {
  actions.push(action)
}

export async function endFile(): Promise<void> {
  for (const action of actions) await action()
}
