/** An invalid option of the emulator. `option` is its command-line name without dashes. */
export class EmulatorOptionError extends Error {
  readonly option: string

  constructor(option: string, message: string) {
    super(`--${option}: ${message}`)
    this.name = 'EmulatorOptionError'
    this.option = option
  }
}
