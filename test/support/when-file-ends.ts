/**
 * Hooks at the end of a test file for shared modules: these are loaded once for many files, so that a hook of their own
 * would run only at the end of the first file.
 *
 * Invariant: registered functions run after each file, after its own hooks; vitest.config.ts loads after-each-file.ts,
 * which ensures it.
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
