// The names of properties that only the package's inside uses. The build shortens them: they are a
// third of the bundle. A name is left alone if the surface, the log, `inspect()` or something of the
// platform that the sources use has one like it. Names that no object has both of share a short one.
import ts from "typescript";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const ENTRIES = ["index", "react", "store", "persist"].map((name) => `src/${name}.ts`);
/** Calls whose objects are shown to the application, and functions that make such objects. */
const SHOWN_CALLS = /^(note|log|logged)$/;
const SHOWN_FUNCTIONS = ["inspect", "note", "newCore.counters"];

/** What of the platform the package names by itself. */
const PLATFORM = resolve("src/platform.ts");

/** The program of the package, as the compiler sees it. */
function program() {
  const { config } = ts.readConfigFile("tsconfig.json", (path) => readFileSync(path, "utf8"));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ".");
  return ts.createProgram(ENTRIES.map((path) => resolve(path)), options);
}

const isOwn = (declaration) => {
  const { fileName } = declaration.getSourceFile();
  return fileName.startsWith(resolve("src")) && fileName !== PLATFORM;
};

const isHidden = (node) =>
  (ts.canHaveModifiers(node) && ts.getModifiers(node)?.some((it) => it.kind === ts.SyntaxKind.PrivateKeyword)) ||
  ts.getJSDocTags(node).some((tag) => tag.tagName.text === "internal");

/** What `npm run names` has found to pack well; a name that is not in it gets the next free one. */
const CHOSEN = JSON.parse(readFileSync("scripts/short_names.json", "utf8"));

/** The short names of the inner ones, and the sets of names that one object may have. */
export function innerNames(chosen = CHOSEN) {
  const compiled = program();
  const checker = compiled.getTypeChecker();
  const inner = new Set();
  const kept = new Set();

  // The surface: every member of what the entries export, and of the types in it.
  const seen = new Set();
  function show(type) {
    if (seen.has(type)) return;
    seen.add(type);
    if (type.isUnionOrIntersection()) return type.types.forEach(show);
    for (const argument of checker.getTypeArguments(type) ?? []) show(argument);
    for (const signature of [...type.getCallSignatures(), ...type.getConstructSignatures()]) {
      const { declaration } = signature;
      if (declaration && (!isOwn(declaration) || isHidden(declaration))) continue;
      show(signature.getReturnType());
      for (const parameter of signature.getParameters()) show(checker.getTypeOfSymbol(parameter));
    }
    for (const property of type.getProperties()) {
      const declaration = property.valueDeclaration;
      if (!declaration || !isOwn(declaration) || isHidden(declaration)) continue;
      kept.add(property.name);
      show(checker.getTypeOfSymbol(property));
    }
    const index = type.getStringIndexType() ?? type.getNumberIndexType();
    if (index) show(index);
  }
  for (const path of ENTRIES) {
    const module = checker.getSymbolAtLocation(compiled.getSourceFile(resolve(path)));
    for (let symbol of checker.getExportsOfModule(module)) {
      if (symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
      if (symbol.valueDeclaration) show(checker.getTypeOfSymbol(symbol));
      if (symbol.flags & ts.SymbolFlags.Type) show(checker.getDeclaredTypeOfSymbol(symbol));
    }
  }

  /** A name in the sources: the platform's own stay, and those of unknown objects. */
  const counts = new Map();
  function use(name, symbol) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const declarations = symbol?.declarations ?? [];
    // Members of enums are gone: their values stand in their places.
    if (declarations.some(ts.isEnumMember)) return;
    if (declarations.some(isOwn)) inner.add(name);
    if (!declarations.length || !declarations.every(isOwn)) kept.add(name);
  }
  /** Sets of names that one object may have. */
  const objects = [];
  const namesOf = (type) => (type.types ?? [type]).flatMap((it) => it.getProperties().map(({ name }) => name));
  function visit(node, isShown) {
    if (ts.isObjectLiteralExpression(node)) {
      const wanted = checker.getContextualType(node);
      objects.push([...namesOf(checker.getTypeAtLocation(node)), ...(wanted ? namesOf(wanted) : [])]);
    } else if (ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node) || ts.isTypeLiteralNode(node)) {
      objects.push(namesOf(checker.getTypeAtLocation(node)));
      // Its names are in a storage, where other versions of the package read them.
      if (ts.getJSDocTags(node).some((tag) => tag.tagName.text === "stored")) objects.at(-1).forEach((name) => kept.add(name));
    }
    const name = ts.isCallExpression(node) && node.expression.getText().split(/[.?!]+/).pop().replace("!", "");
    const isMaker = (ts.isFunctionDeclaration(node) || (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name))) && SHOWN_FUNCTIONS.includes(node.name.text);
    const isCounter = ts.isPropertyAssignment(node) && SHOWN_FUNCTIONS.includes(`newCore.${node.name.text}`);
    if ((name && SHOWN_CALLS.test(name)) || isMaker || isCounter) isShown = true;
    const written = node.name ?? node.propertyName;
    const isMember =
      ts.isPropertyAccessExpression(node) || ts.isPropertyAssignment(node) || ts.isShorthandPropertyAssignment(node) || ts.isClassElement(node) || ts.isTypeElement(node) ||
      (ts.isParameter(node) && ts.getModifiers(node)?.length);
    if (isMember && written && ts.isIdentifier(written)) {
      use(written.text, checker.getSymbolAtLocation(written));
      // What an object is made for, such as options of the platform.
      const wanted = ts.isObjectLiteralExpression(node.parent) && checker.getContextualType(node.parent);
      for (const type of wanted?.types ?? (wanted ? [wanted] : [])) {
        const property = checker.getPropertyOfType(type, written.text);
        if (property) use(written.text, property);
      }
      if (isShown && !ts.isPropertyAccessExpression(node)) kept.add(written.text);
    }
    if (ts.isBindingElement(node) && ts.isObjectBindingPattern(node.parent)) {
      const key = node.propertyName ?? node.name;
      use(key.text, checker.getTypeAtLocation(node.parent).getProperty(key.text));
    }
    node.forEachChild((child) => visit(child, isShown));
  }
  for (const file of compiled.getSourceFiles()) if (file.fileName.startsWith(resolve("src"))) visit(file, false);
  const names = [...inner].filter((name) => !kept.has(name) && name.length > 1);
  names.sort((one, other) => counts.get(other) - counts.get(one));
  return { given: shortened(names, objects, kept, chosen), objects };
}

/** The order in which the minifier gives names too. */
const LETTERS = "tneisaofulhcdrpmbvgykwxqjzTNEISAOFULHCDRPMBVGYKWXQJZ";
const SHORT = [...LETTERS, ...[...LETTERS].flatMap((first) => [...LETTERS].map((second) => first + second))];

/** Gives each name, the commonest first, its chosen short one, or the first that nothing beside it has. */
function shortened(names, objects, kept, chosen) {
  const given = {};
  for (const name of names) {
    const beside = new Set(objects.filter((it) => it.includes(name)).flat().map((it) => given[it]));
    given[name] = [chosen[name], ...SHORT].find((short) => short && !beside.has(short) && !kept.has(short));
  }
  return given;
}

if (import.meta.url === `file://${process.argv[1]}`) console.log(innerNames().given);
