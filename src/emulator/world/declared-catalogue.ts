/** The resources that one file each declares; those with writes, exports or a life of their own are in the world. */
import type { DeclaredResource } from './declared.ts'

export const DECLARED: readonly DeclaredResource[] = []

/** The declared resource whose events have this `source`. */
export function declaredAs(source: string): DeclaredResource | undefined {
  return DECLARED.find((resource) => resource.source === source)
}
