/** The files that docs/adding-a-resource.md writes and changes: its code blocks under a heading with a path. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dirname, '../..')

export interface PageFile {
  readonly path: string
  /** `diff` changes a file; anything else is the file itself. */
  readonly language: string
  readonly text: string
}

export function filesOfPage(): readonly PageFile[] {
  const page = readFileSync(join(ROOT, 'docs/adding-a-resource.md'), 'utf8')
  return [...page.matchAll(/^\*\*`([\w./-]+)`\*\*\n\n```(\w+)\n([\s\S]*?)^```$/gm)].map(
    ([, path, language, text]) => ({ path: path!, language: language!, text: text! }),
  )
}

/** The paths in the table at the top of the page. */
export function pathsOfPage(): readonly string[] {
  const page = readFileSync(join(ROOT, 'docs/adding-a-resource.md'), 'utf8')
  const table = page.slice(0, page.indexOf('\n## '))
  return [...table.matchAll(/^\| `([\w./-]+)` \|/gm)].map(([, path]) => path!)
}

/** Throws if a hunk's lines are not exactly once in the file. */
export function applyTo(folder: string, { path, language, text }: PageFile): void {
  const file = join(folder, path)
  if (language !== 'diff') {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { flag: 'wx' })
    return
  }
  const changed = text.split(/^@@\n/m).reduce(
    (before, hunk) => {
      const lines = hunk.split('\n').slice(0, -1)
      const side = (sign: string) =>
        lines
          .flatMap((line) => (line.startsWith(' ') || line.startsWith(sign) ? [`${line.slice(1)}\n`] : []))
          .join('')
      const parts = `\n${before}`.split(`\n${side('-')}`)
      if (parts.length !== 2) throw new Error(`${path}: a hunk of the page fits ${parts.length - 1} places`)
      return parts.join(`\n${side('+')}`).slice(1)
    },
    readFileSync(file, 'utf8'),
  )
  writeFileSync(file, changed)
}
