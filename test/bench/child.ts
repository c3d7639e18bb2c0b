/** Programs that the benchmark starts as processes of their own, compiled or not like itself. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** `name`: a file in this folder, without its suffix. */
export function programOf(name: string): string {
  const here = fileURLToPath(import.meta.url)
  return fileURLToPath(new URL(`${name}${extname(here)}`, import.meta.url))
}
