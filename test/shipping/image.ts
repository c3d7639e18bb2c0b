/**
 * Executes the Dockerfile in folders of this machine, without a container engine.
 *
 * Invariant: a step finds the content of an image: files that the ignore file lets through, results of earlier steps, and
 * nothing else of the checkout. Differences: the machine's Node, C library and user.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'

export interface Image {
  /** The root of its file system. */
  readonly root: string
  readonly entrypoint: readonly string[]
  readonly healthcheck: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The last stage, in `folder`, from the checkout `context`. */
export function buildImage(context: string, folder: string): Image {
  const allowed = [...readFileSync(join(context, '.dockerignore'), 'utf8').matchAll(/^!(.+)$/gm)].map(
    (each) => each[1]!,
  )
  const stages = new Map<string, string>()
  let root = ''
  let workdir = '/'
  let env: Record<string, string> = {}
  let entrypoint: readonly string[] = []
  let healthcheck: readonly string[] = []
  const inside = (path: string) => join(root, path.startsWith('/') ? path : join(workdir, path))

  const steps: Readonly<Record<string, (rest: string) => void>> = {
    FROM(rest) {
      const name = / AS (\w+)$/.exec(rest)?.[1] ?? 'last'
      root = join(folder, name)
      stages.set(name, root)
      workdir = '/'
      env = {}
      mkdirSync(join(root, 'usr/local/bin'), { recursive: true })
      mkdirSync(join(root, 'tmp'))
    },
    WORKDIR(rest) {
      workdir = rest
      mkdirSync(join(root, workdir), { recursive: true })
    },
    ENV(rest) {
      const [name, value] = rest.split('=') as [string, string]
      env[name] = value
    },
    COPY(rest) {
      const from = /^--from=(\w+) /.exec(rest)?.[1]
      const paths = rest.replace(/^--from=\w+ /, '').split(/\s+/)
      const to = paths.pop()!
      for (const path of paths) {
        if (from === undefined && !allowed.includes(path.split('/')[0]!))
          throw new Error(`${path} is ignored`)
        const source = from === undefined ? join(context, path) : join(stages.get(from)!, path)
        const isInto = to.endsWith('/') && !statSync(source).isDirectory()
        cpSync(source, isInto ? join(inside(to), basename(path)) : inside(to), {
          recursive: true,
          verbatimSymlinks: true,
        })
      }
    },
    RUN(rest) {
      const command = rest.replaceAll(/(?<=\s)\/(app|usr\/local)\//g, `${root}/$1/`)
      const variables = { PATH: process.env.PATH, HOME: process.env.HOME, npm_config_prefer_offline: 'true' }
      execFileSync('sh', ['-c', command], {
        cwd: join(root, workdir),
        env: { ...variables, ...env },
        stdio: 'pipe',
      })
    },
    ENTRYPOINT(rest) {
      entrypoint = JSON.parse(rest) as string[]
    },
    HEALTHCHECK(rest) {
      healthcheck = JSON.parse(/ CMD (\[.+\])$/.exec(rest)![1]!) as string[]
    },
    USER() {},
    EXPOSE() {},
    STOPSIGNAL() {},
    CMD() {},
  }
  const lines = readFileSync(join(context, 'Dockerfile'), 'utf8').replace(/\\\n/g, ' ').split('\n')
  for (const line of lines.filter((each) => each !== '' && !each.startsWith('#'))) {
    const [, word, rest] = /^([A-Z]+) (.+)$/.exec(line)!
    const step = steps[word!]
    if (step === undefined) throw new Error(`a step that is not known here: ${word}`)
    step(rest!)
  }
  if (!existsSync(join(root, 'usr/local/bin', entrypoint[0] ?? ''))) throw new Error('no entrypoint')
  return { root, entrypoint, healthcheck, env }
}
